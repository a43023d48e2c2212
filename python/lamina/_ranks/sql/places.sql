-- The recorded steps that at least half of the ranks have, and the window of each: runs of such steps, whatever
-- their distance; some 24 windows a run, of 8 to 72 steps. Steps of recordings bring their window with them.
CREATE OR REPLACE TEMPORARY VIEW places AS
WITH counted AS (SELECT attempt, step, COUNT(*) AS ranks, MIN(win) AS win FROM steps GROUP BY attempt, step),
usual AS (SELECT attempt, MAX(ranks) AS ranks FROM counted GROUP BY attempt),
common AS (
    SELECT c.attempt, c.step, c.win, ROW_NUMBER() OVER (PARTITION BY c.attempt ORDER BY c.step) - 1 AS place
    FROM counted c INNER JOIN usual u ON u.attempt = c.attempt WHERE 2 * c.ranks >= u.ranks),
size AS (SELECT LEAST(72, GREATEST(8, ROUND(COUNT(*) / 24.0))) AS steps FROM common)
SELECT c.attempt, c.step, COALESCE(c.win, CAST(FLOOR(c.place / s.steps) AS BIGINT)) AS win FROM common c CROSS JOIN size s
