-- The ids of these topics as they were first seen.
SELECT topic, identity FROM topic_identities WHERE topic = ANY(%(topics)s);
