-- Each rank in each window: the median of its own work, and means of its phases, which add up.
SELECT o.attempt, p.win, o.rank, MIN(o.node) AS node, MIN(o.step) AS first_step, MIN(o.started_us) AS started_us,
       COUNT(*) AS steps, median(o.own_us) AS own_us, AVG(o.step_us) AS step_us, AVG(o.input_us) AS input_us,
       AVG(o.h2d_us) AS h2d_us, AVG(o.forward_us) AS forward_us, AVG(o.backward_us) AS backward_us,
       AVG(o.optimizer_us) AS optimizer_us, AVG(o.other_us) AS other_us, AVG(o.comm_us) AS comm_us,
       AVG(o.processor_us) AS processor_us
FROM own o INNER JOIN places p ON p.attempt = o.attempt AND p.step = o.step
GROUP BY o.attempt, p.win, o.rank
