-- The ids of topics that are seen for the first time.
INSERT INTO topic_identities (topic, identity)
SELECT * FROM unnest(%(topics)s::text[], %(identities)s::text[]) ON CONFLICT DO NOTHING;
