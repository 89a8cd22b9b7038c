-- Why no position row was taken: the identity of the topic it belongs to, and how far it has come.
SELECT topic_identity, last_offset FROM positions WHERE role = 'working' AND partition = %(partition)s;
