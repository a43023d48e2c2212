-- The own work of each rank in each recorded step: the step without its waiting for others. Where waiting is
-- not measured apart, only the phases that hold none are taken. Runs in DuckDB and in Spark.
CREATE OR REPLACE TEMPORARY VIEW own AS
SELECT s.attempt, s.step, s.rank, r.node, r.comm_group, s.started_us, s.step_us, s.input_us, s.h2d_us, s.forward_us,
       s.backward_us, s.optimizer_us, s.other_us, s.comm_us, s.comm_group_us,
       CASE WHEN r.waits = 'comm' THEN s.step_us - s.comm_us
            WHEN r.waits = 'other' THEN s.step_us - s.other_us
            ELSE s.input_us + s.h2d_us + s.optimizer_us END AS own_us
FROM steps s INNER JOIN ranks r ON r.attempt = s.attempt AND r.rank = s.rank
