-- The groups of all nodes as one.
SELECT attempt, step, tree, CAST(SUM(ranks) AS BIGINT) AS ranks, MIN(first_rank) AS first_rank, collectives,
       collectives_hash
FROM orders GROUP BY attempt, step, tree, collectives, collectives_hash
