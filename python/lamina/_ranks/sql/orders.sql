-- The ranks of each node with the same layers that began the same collectives in a recorded step: of each such group
-- how many ranks, and the first. Runs in DuckDB and in Spark.
SELECT s.attempt, s.step, r.node, r.tree, s.collectives, s.collectives_hash, COUNT(*) AS ranks,
       MIN(s.rank) AS first_rank, MIN(s.started_us) AS started_us
FROM steps s INNER JOIN ranks r ON r.attempt = s.attempt AND r.rank = s.rank
WHERE s.collectives IS NOT NULL AND s.collectives_hash IS NOT NULL
GROUP BY s.attempt, s.step, r.node, r.tree, s.collectives, s.collectives_hash
