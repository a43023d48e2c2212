-- Of each layer the rank that takes longest beyond the median of its peers, the ranks with the same layers: forward
-- and backward, means over hours.
WITH alike AS (SELECT rank, MAX(tree) AS tree FROM ranks GROUP BY rank),
sums AS (
    SELECT l.rank, a.tree, l.layer, AVG(l.forward_us + l.backward_us) AS us
    FROM layers l INNER JOIN alike a ON a.rank = l.rank
    WHERE l.hour BETWEEN {first_hour} AND {last_hour} GROUP BY l.rank, a.tree, l.layer),
peers AS (SELECT tree, layer, median(us) AS us FROM sums GROUP BY tree, layer),
placed AS (
    SELECT s.layer, s.rank, s.us AS own_us, p.us AS peer_us,
           ROW_NUMBER() OVER (PARTITION BY s.layer ORDER BY s.us - p.us DESC NULLS LAST, s.rank) AS place
    FROM sums s INNER JOIN peers p ON p.tree = s.tree AND p.layer = s.layer)
SELECT layer, rank, own_us, peer_us FROM placed WHERE place = 1
