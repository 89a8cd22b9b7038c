import java.nio.file.Path;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

/** Runs Neo4j Community from its library, until a signal ends the process. Arguments: home directory, configuration file. */
public final class Neo4jServer {
    public static void main(String[] arguments) {
        DatabaseManagementService service = new DatabaseManagementServiceBuilder(Path.of(arguments[0]))
                .loadPropertiesFromFile(Path.of(arguments[1]))
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(service::shutdown));
    }
}
