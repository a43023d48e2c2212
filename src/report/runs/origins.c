/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each number comes from: the tables, and the query over them that gives it. */
#include "report/runs/many.h"

/* A step is what most ranks have of it. */
#define STEPS                                                                                                \
    "WITH steps_of AS (\n  SELECT attempt, step, SUM(ranks) AS ranks, MAX(step_us) AS step_us, "             \
    "MAX(last_us) "                                                                                          \
    "AS last_us,\n         SUM(own_us) / SUM(ranks) AS own_us, MIN(transfer_us) AS transfer_us\n"            \
    "  FROM meets GROUP BY attempt, step),\n"                                                                \
    "common AS (SELECT * FROM steps_of WHERE 2 * ranks >= (SELECT MAX(ranks) FROM steps_of))\n"

/* -- queries that depend on the verdict ---------------------------------------------------------------- */

/* Writes the named ranks: "11, 12". */
static void put_named(const lam_ranks *r, lmi_buf *b) {
    bool any = false;
    for (int32_t i = 0; r->named && i < r->n_ranks; i++) {
        if (!r->named[i]) continue;
        lmi_putf(b, any ? ", %d" : "%d", (int)r->ranks[i].rank);
        any = true;
    }
    if (!any) lmi_put(b, "-1");
}

/* A condition on attempt and step, or window: the time of the verdict, or all. */
static void put_when(const lam_ranks *r, lmi_buf *b, const char *attempt, const char *column) {
    const lmi_stretch *in = &r->period;
    if (!in->n) {
        lmi_putf(b, "%s >= 0", attempt);
        return;
    }
    const lmi_win *from = &r->wins[in->first], *to = &r->wins[in->last];
    const bool windows = strcmp(column, "step") != 0;
    lmi_putf(b, "(%s, %s) >= (%d, %lld)", attempt, column, (int)from->attempt,
             (long long)(windows ? from->window : from->first_step));
    if (windows)
        lmi_putf(b, " AND (%s, %s) <= (%d, %lld)", attempt, column, (int)to->attempt, (long long)to->window);
    else if (in->last + 1 < r->n_wins)
        lmi_putf(b, " AND (%s, %s) < (%d, %lld)", attempt, column, (int)to[1].attempt,
                 (long long)to[1].first_step);
}

static void put_gain(const lam_ranks *r, lmi_buf *b) {
    lmi_put(b, "WITH last AS (\n  SELECT attempt, step, MAX(step_us) AS step_us, MAX(last_us) AS last_us,\n"
               "         MAX(CASE WHEN last_rank NOT IN (");
    put_named(r, b);
    lmi_put(b, ") THEN last_us\n                  WHEN second_rank NOT IN (");
    put_named(r, b);
    lmi_put(b, ") THEN second_us END) AS others_us\n  FROM meets WHERE ");
    put_when(r, b, "attempt", "step");
    lmi_put(b,
            " GROUP BY attempt, step)\nSELECT AVG(step_us) AS step_us, AVG(step_us - GREATEST(0, last_us - "
            "others_us)) AS without_us\nFROM last WHERE others_us IS NOT NULL");
}

static void put_phases(const lam_ranks *r, lmi_buf *b) {
    static const char *const of[] = {"input", "h2d",   "forward", "backward", "optimizer",
                                     "comm",  "other", "own",     "step"};
    enum { N = sizeof of / sizeof *of };
    const char *named = r->verdict.n_nodes ? "node" : "rank";
    lmi_put(b, "WITH means AS (\n  SELECT w.rank, MAX(r.node) AS node");
    for (int k = 0; k < N; k++)
        lmi_putf(b, "%s AVG(w.%s_us) AS %s_us", k % 3 ? "," : ",\n        ", of[k], of[k]);
    lmi_put(b, "\n  FROM windows w INNER JOIN ranks r ON r.rank = w.rank AND r.attempt = w.attempt\n"
               "  WHERE w.steps >= (SELECT GREATEST(4, FLOOR(MAX(v.steps) / 3)) FROM windows v\n"
               "                    WHERE v.attempt = w.attempt AND v.win IN (w.win, w.win - 1))\n    AND ");
    put_when(r, b, "w.attempt", "w.win");
    lmi_put(b, " GROUP BY w.rank)\nSELECT CASE WHEN rank IN (");
    put_named(r, b);
    lmi_putf(b, ") THEN %s END AS named", named);
    for (int k = 0; k < N; k++)
        lmi_putf(b, "%s median(%s_us) AS %s_us", k % 3 ? "," : ",\n      ", of[k], of[k]);
    lmi_put(b, "\nFROM means GROUP BY CASE WHEN rank IN (");
    put_named(r, b);
    lmi_putf(b, ") THEN %s END", named);
}

/* -- the section --------------------------------------------------------------------------------------- */

static void put_query(lmi_many *p, lmi_many_origin of, const char *what, const char *query) {
    lmi_putf(p->b, "<div id=\"%s\" class=\"exact\"><p>%s</p>", lmi_many_ids[of], what);
    if (query) lmi_put(p->b, "<pre tabindex=\"0\"><code>");
    if (query) lmi_put_html(p->b, query);
    lmi_put(p->b, query ? "</code></pre></div>\n" : "</div>\n");
}

static void put_made(lmi_many *p, lmi_many_origin of, const char *what,
                     void (*make)(const lam_ranks *r, lmi_buf *b)) {
    lmi_buf query;
    lmi_buf_init(&query);
    make(p->r, &query);
    put_query(p, of, what, lmi_buf_text(&query));
    lmi_buf_used(&query, p->b);
}

static void put_folder(lmi_many *p) {
    put_query(
        p, LMI_FROM_RANKS, "Ranks that have windows of steps, and the size of the run.",
        "SELECT COUNT(DISTINCT w.rank) AS ranks, MAX(r.world) AS world, COUNT(DISTINCT r.node) AS nodes\n"
        "FROM windows w INNER JOIN ranks r ON r.rank = w.rank AND r.attempt = w.attempt");
    put_query(p, LMI_FROM_STEPS, "Recorded steps that at least half of the ranks have; means over them.",
              STEPS
              "SELECT COUNT(*) AS steps, AVG(step_us) AS step_us, AVG(last_us - own_us) AS late_us,\n       "
              "AVG(transfer_us) AS transfer_us FROM common");
    put_made(p, LMI_FROM_GAIN,
             "The steps of that time, and the same if the named ranks had been as early as the last of the "
             "others; "
             "of a node, which tells its last two ranks, where these are not all named.",
             put_gain);
    put_made(p, LMI_FROM_WINDOWS, "Phases: the mean of each rank's windows, then the median of the ranks.",
             put_phases);
    put_query(
        p, LMI_FROM_NODES,
        "How late a rank is: its own work beside the median of the ranks with the same layers, if they are "
        "at "
        "least four.",
        "WITH w AS (\n  SELECT r.node, r.tree, w.rank, w.attempt, w.win, w.own_us FROM windows w\n  INNER "
        "JOIN "
        "ranks r ON r.rank = w.rank AND r.attempt = w.attempt),\npeers AS (SELECT tree, attempt, win, "
        "median(own_us) AS us FROM w GROUP BY tree, attempt, win)\nSELECT w.node, w.rank, w.attempt, w.win, "
        "w.own_us / p.us - 1 AS late FROM w\nINNER JOIN peers p ON p.tree = w.tree AND p.attempt = w.attempt "
        "AND p.win = w.win");
    put_query(
        p, LMI_FROM_LAST, "Who was the last in how many steps.",
        "WITH placed AS (\n  SELECT last_rank, ROW_NUMBER() OVER (PARTITION BY attempt, step ORDER BY "
        "last_us "
        "DESC NULLS LAST, last_rank) AS place\n  FROM meets WHERE last_rank IS NOT NULL)\nSELECT last_rank "
        "AS "
        "rank, COUNT(*) AS steps FROM placed WHERE place = 1 GROUP BY last_rank ORDER BY steps DESC, rank");
    put_query(
        p, LMI_FROM_MFU,
        "Floating-point operations of a step over the peak of the device, over the mean step; unknown unless "
        "all ranks tell both.",
        STEPS "SELECT AVG(step_flops / peak_flops) / ((SELECT AVG(step_us) FROM common) / 1e6) AS mfu FROM "
              "ranks");
}

/* Of recordings: each file is a database of its own. */
static void put_files(lmi_many *p) {
    static const char steps[] =
        "SELECT number, started_unix_ns, whole_ns, input_ns, h2d_ns, own_forward_ns, "
        "own_backward_ns,\n       "
        "optimizer_ns, wait_ns, other_ns, processor_wait_ns FROM steps WHERE NOT failed ORDER BY number";
    put_query(p, LMI_FROM_RANKS, "The table runs of each file.", "SELECT rank, world, host, pid FROM runs");
    put_query(p, LMI_FROM_STEPS,
              "The table steps of each file. A step of all ranks is that of one number: the longest "
              "whole_ns; own work is whole_ns without wait_ns, and without processor_wait_ns if all tell it; "
              "the transfer is the least wait_ns.",
              steps);
    put_query(p, LMI_FROM_GAIN,
              "The same steps, if the named ranks had been as early as the last of the others.", NULL);
    put_query(p, LMI_FROM_WINDOWS, "Means of the same steps, then the median of the ranks.", NULL);
    put_query(p, LMI_FROM_NODES, "Own work in windows of the same steps, beside the median of the ranks.",
              NULL);
    put_query(p, LMI_FROM_LAST, "The rank with most own work in each of these steps.", NULL);
    put_query(
        p, LMI_FROM_MFU,
        "The table work of each file: the operations of the first steps of a mode, and the device's peak; "
        "over the mean step. Unknown unless all ranks tell both.",
        "SELECT step, flops, hardware_flops, at_least, why, peak_flops, why_peak FROM work");
}

void lmi_many_origins(lmi_many *p) {
    lmi_put(
        p->b,
        "<section id=\"origins\" aria-labelledby=\"h-origins\"><div class=\"hd\"><h2 id=\"h-origins\">Where "
        "the numbers come from</h2><span class=\"say\">");
    lmi_put(p->b, p->name ? "SQL over the tables of the folder, each a view of its Parquet files, such as "
                            "read_parquet('run/windows/**/*.parquet', union_by_name = true)"
                          : "SQL over each recording, which is an SQLite database");
    lmi_put(p->b, "</span></div>");
    if (p->name)
        put_folder(p);
    else
        put_files(p);
    lmi_put(p->b, "</section>\n");
}
