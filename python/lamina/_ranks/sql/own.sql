-- The own work of each rank in each recorded step: the step without its waiting for others, and for a processor
-- if all steps tell that. Where waiting is not measured apart, only the phases that hold none are taken. Runs in
-- DuckDB and in Spark.
CREATE OR REPLACE TEMPORARY VIEW own AS
WITH told AS (SELECT MIN(CASE WHEN processor_us IS NULL THEN 0 ELSE 1 END) AS processor FROM steps),
worked AS (
    SELECT s.attempt, s.step, s.rank, s.started_us, s.step_us, s.input_us, s.h2d_us, s.forward_us, s.backward_us,
           s.optimizer_us, s.other_us, s.comm_us, s.comm_group_us, s.processor_us, s.represents,
           s.own_us AS given_us,
           s.step_us - s.comm_us - CASE WHEN t.processor = 1 THEN s.processor_us ELSE 0 END AS worked_us
    FROM steps s CROSS JOIN told t)
SELECT s.attempt, s.step, s.rank, r.node, r.tree, r.comm_group, s.started_us, s.step_us, s.input_us, s.h2d_us, s.forward_us,
       s.backward_us, s.optimizer_us, s.other_us, s.comm_us, s.comm_group_us, s.processor_us, s.represents,
       CASE WHEN s.given_us IS NOT NULL THEN s.given_us
            WHEN r.waits = 'comm' AND s.worked_us < 0 THEN 0
            WHEN r.waits = 'comm' THEN s.worked_us
            WHEN r.waits = 'other' THEN s.step_us - s.other_us
            ELSE s.input_us + s.h2d_us + s.optimizer_us END AS own_us
FROM worked s INNER JOIN ranks r ON r.attempt = s.attempt AND r.rank = s.rank
