-- Each node in each recorded step: the last and the second last of its ranks, and what is left when all are
-- there. A node whose ranks are of several groups has a row for each.
WITH placed AS (
    SELECT attempt, step, node, comm_group, rank, own_us, comm_us, comm_group_us, step_us, started_us, represents,
           ROW_NUMBER() OVER (PARTITION BY attempt, step, node, comm_group
                              ORDER BY own_us DESC NULLS LAST, rank) AS place
    FROM own)
SELECT attempt, step, node, comm_group, COUNT(*) AS ranks,
       MAX(CASE WHEN place = 1 AND own_us IS NOT NULL THEN rank END) AS last_rank,
       MAX(CASE WHEN place = 1 THEN own_us END) AS last_us,
       MAX(CASE WHEN place = 2 AND own_us IS NOT NULL THEN rank END) AS second_rank,
       MAX(CASE WHEN place = 2 THEN own_us END) AS second_us,
       SUM(own_us) AS own_us, MIN(comm_us) AS transfer_us, MIN(comm_group_us) AS group_transfer_us,
       MAX(step_us) AS step_us, MIN(started_us) AS started_us, MAX(represents) AS represents
FROM placed GROUP BY attempt, step, node, comm_group
