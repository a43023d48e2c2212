-- Some ranks layer by layer beside the median of others: forward and backward, medians over hours; of a layer
-- without a backward pass, forward.
WITH peers AS (
    SELECT hour, layer, median(COALESCE(forward_us + backward_us, forward_us, backward_us)) AS us FROM layers
    WHERE rank IN ({peers}) AND hour BETWEEN {first_hour} AND {last_hour} GROUP BY hour, layer)
SELECT a.layer, a.rank, median(COALESCE(a.forward_us + a.backward_us, a.forward_us, a.backward_us)) AS own_us, median(p.us) AS peer_us
FROM layers a INNER JOIN peers p ON p.hour = a.hour AND p.layer = a.layer
WHERE a.rank IN ({ranks}) AND a.hour BETWEEN {first_hour} AND {last_hour}
GROUP BY a.layer, a.rank
