RETURN 1 AS answer
