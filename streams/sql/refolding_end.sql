-- Workers may go on.
DELETE FROM refolding;
