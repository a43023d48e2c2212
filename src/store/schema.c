/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a recording; docs/recording.md explains them. Each version adds to the previous one, and a
 * file of an older version is upgraded when it is opened to write. To add a version, raise
 * LMI_SCHEMA_VERSION. */
#include "store/store.h"

static const char first[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('schema', '1'), ('made_by', 'lamina " LAM_VERSION "');"
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, started_unix_ns INTEGER NOT NULL,"
    " seen_unix_ns INTEGER NOT NULL, ended_unix_ns INTEGER, command TEXT, host TEXT, torch TEXT,"
    " lamina TEXT NOT NULL, pid INTEGER NOT NULL, rank INTEGER NOT NULL, world INTEGER NOT NULL,"
    " every INTEGER NOT NULL, dropped INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE models (id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id),"
    " root INTEGER NOT NULL, name TEXT NOT NULL, params INTEGER, local_params INTEGER, param_bytes INTEGER);"
    "CREATE TABLE places (model INTEGER NOT NULL REFERENCES models(id), place INTEGER NOT NULL,"
    " parent INTEGER, depth INTEGER NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, params INTEGER,"
    " local_params INTEGER, PRIMARY KEY (model, place)) WITHOUT ROWID;"
    "CREATE TABLE steps (id INTEGER PRIMARY KEY, model INTEGER NOT NULL REFERENCES models(id),"
    " number INTEGER NOT NULL, training INTEGER NOT NULL, started_unix_ns INTEGER NOT NULL,"
    " started_ns INTEGER NOT NULL, calls INTEGER NOT NULL, failed INTEGER NOT NULL, forward_ns INTEGER,"
    " backward_ns INTEGER, peak_bytes INTEGER, looked INTEGER NOT NULL, first_bad INTEGER, bad TEXT);"
    "CREATE INDEX steps_of ON steps (model, number);"
    "CREATE TABLE layers (step INTEGER NOT NULL REFERENCES steps(id), place INTEGER NOT NULL,"
    " calls INTEGER NOT NULL, forward_ns INTEGER, forward_self_ns INTEGER, backward_ns INTEGER,"
    " recompute_ns INTEGER, allocated_bytes INTEGER, retained_bytes INTEGER, peak_bytes INTEGER,"
    " nan INTEGER, inf INTEGER, PRIMARY KEY (step, place)) WITHOUT ROWID;"
    "CREATE VIEW timeline AS SELECT m.run, m.name AS model, s.number AS step, s.training, p.path, p.type,"
    " l.calls, l.forward_ns, l.forward_self_ns, l.backward_ns, l.recompute_ns, l.allocated_bytes,"
    " l.retained_bytes, l.peak_bytes, l.nan, l.inf FROM layers l JOIN steps s ON s.id = l.step"
    " JOIN models m ON m.id = s.model JOIN places p ON p.model = m.id AND p.place = l.place;"
    "PRAGMA application_id = 0x4c414d4e;"
    "PRAGMA user_version = 1;";

/* Times by a GPU's clock and memory of its allocator. */
static const char second[] =
    "ALTER TABLE steps ADD COLUMN device_forward_ns INTEGER;"
    "ALTER TABLE steps ADD COLUMN device_backward_ns INTEGER;"
    "ALTER TABLE steps ADD COLUMN device_peak_bytes INTEGER;"
    "ALTER TABLE layers ADD COLUMN device_forward_ns INTEGER;"
    "ALTER TABLE layers ADD COLUMN device_self_ns INTEGER;"
    "ALTER TABLE layers ADD COLUMN device_backward_ns INTEGER;"
    "ALTER TABLE layers ADD COLUMN device_recompute_ns INTEGER;"
    "ALTER TABLE layers ADD COLUMN device_retained_bytes INTEGER;"
    "ALTER TABLE layers ADD COLUMN device_peak_bytes INTEGER;"
    "DROP VIEW IF EXISTS timeline;"
    "CREATE VIEW timeline AS SELECT m.run, m.name AS model, s.number AS step, s.training, p.path, p.type,"
    " l.calls, l.forward_ns, l.forward_self_ns, l.backward_ns, l.recompute_ns, l.allocated_bytes,"
    " l.retained_bytes, l.peak_bytes, l.nan, l.inf, l.device_forward_ns, l.device_self_ns,"
    " l.device_backward_ns, l.device_recompute_ns, l.device_retained_bytes, l.device_peak_bytes"
    " FROM layers l JOIN steps s ON s.id = l.step"
    " JOIN models m ON m.id = s.model JOIN places p ON p.model = m.id AND p.place = l.place;"
    "UPDATE meta SET value = '2' WHERE key = 'schema';"
    "PRAGMA user_version = 2;";

/* Whether torch made graphs in a step; older versions do not record it. */
static const char third[] =
    "ALTER TABLE steps ADD COLUMN gradients INTEGER;"
    "DROP VIEW IF EXISTS timeline;"
    "CREATE VIEW timeline AS SELECT m.run, m.name AS model, s.number AS step, s.training, s.gradients,"
    " p.path, p.type, l.calls, l.forward_ns, l.forward_self_ns, l.backward_ns, l.recompute_ns,"
    " l.allocated_bytes, l.retained_bytes, l.peak_bytes, l.nan, l.inf, l.device_forward_ns, l.device_self_ns,"
    " l.device_backward_ns, l.device_recompute_ns, l.device_retained_bytes, l.device_peak_bytes"
    " FROM layers l JOIN steps s ON s.id = l.step"
    " JOIN models m ON m.id = s.model JOIN places p ON p.model = m.id AND p.place = l.place;"
    "UPDATE meta SET value = '3' WHERE key = 'schema';"
    "PRAGMA user_version = 3;";

/* Summaries of each layer over many steps, for readers that need medians and not each row (rollup.c). */
static const char fourth[] =
    "CREATE TABLE rollups (id INTEGER PRIMARY KEY, model INTEGER NOT NULL REFERENCES models(id),"
    " training INTEGER NOT NULL, gradients INTEGER NOT NULL, went_back INTEGER NOT NULL, calls INTEGER,"
    " steps INTEGER NOT NULL, last_step INTEGER NOT NULL REFERENCES steps(id));"
    "CREATE INDEX rollups_of ON rollups (model);"
    "CREATE TABLE rollup_layers (rollup INTEGER NOT NULL REFERENCES rollups(id), place INTEGER NOT NULL,"
    " steps INTEGER NOT NULL, looked INTEGER NOT NULL, nonfinite INTEGER NOT NULL, bins BLOB NOT NULL,"
    " PRIMARY KEY (rollup, place)) WITHOUT ROWID;"
    "UPDATE meta SET value = '4' WHERE key = 'schema';"
    "PRAGMA user_version = 4;";

/* What this process holds of sharded parameters, and what their shapes and types give; whether compiled code
 * ran in a step, and how often in each layer. */
static const char fifth[] =
    "ALTER TABLE models ADD COLUMN local_bytes INTEGER;"
    "ALTER TABLE models ADD COLUMN logical_bytes INTEGER;"
    "ALTER TABLE steps ADD COLUMN compiled INTEGER;"
    "ALTER TABLE layers ADD COLUMN regions INTEGER;"
    "ALTER TABLE rollups ADD COLUMN compiled INTEGER;"
    "DROP VIEW IF EXISTS timeline;"
    "CREATE VIEW timeline AS SELECT m.run, m.name AS model, s.number AS step, s.training, s.gradients,"
    " s.compiled, p.path, p.type, l.calls, l.forward_ns, l.forward_self_ns, l.backward_ns, l.recompute_ns,"
    " l.allocated_bytes, l.retained_bytes, l.peak_bytes, l.nan, l.inf, l.device_forward_ns, l.device_self_ns,"
    " l.device_backward_ns, l.device_recompute_ns, l.device_retained_bytes, l.device_peak_bytes, l.regions"
    " FROM layers l JOIN steps s ON s.id = l.step"
    " JOIN models m ON m.id = s.model JOIN places p ON p.model = m.id AND p.place = l.place;"
    "UPDATE meta SET value = '5' WHERE key = 'schema';"
    "PRAGMA user_version = 5;";

/* The phases of a step, which add up to it. */
static const char sixth[] = "ALTER TABLE steps ADD COLUMN whole_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN input_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN h2d_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN own_forward_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN own_backward_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN optimizer_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN wait_ns INTEGER;"
                            "ALTER TABLE steps ADD COLUMN other_ns INTEGER;"
                            "UPDATE meta SET value = '6' WHERE key = 'schema';"
                            "PRAGMA user_version = 6;";

/* Which start of which job a run is, how it ended, and how many calls its models had, with and without being
 * recorded; how long the thread of a step waited for a processor. */
static const char seventh[] =
    "ALTER TABLE runs ADD COLUMN job TEXT;"
    "ALTER TABLE runs ADD COLUMN attempt INTEGER;"
    "ALTER TABLE runs ADD COLUMN ended_by TEXT;"
    "ALTER TABLE runs ADD COLUMN calls INTEGER;"
    "ALTER TABLE models ADD COLUMN tree INTEGER;"
    "ALTER TABLE steps ADD COLUMN processor_wait_ns INTEGER;"
    "ALTER TABLE rollups ADD COLUMN from_unix_ns INTEGER;"
    "CREATE TABLE pace (run INTEGER NOT NULL REFERENCES runs(id), minute INTEGER NOT NULL,"
    " calls INTEGER NOT NULL, slowest_ns INTEGER NOT NULL, PRIMARY KEY (run, minute)) WITHOUT ROWID;"
    "UPDATE meta SET value = '7' WHERE key = 'schema';"
    "PRAGMA user_version = 7;";

/* How many collectives began in a step, and a hash of their names in this order; what a step computes; and a
 * hash of a model's layers alone, which older files have with their sizes: it is made of `places` there. */
static const char eighth[] =
    "ALTER TABLE steps ADD COLUMN collectives INTEGER;"
    "ALTER TABLE steps ADD COLUMN collectives_hash INTEGER;"
    "CREATE TABLE work (step INTEGER PRIMARY KEY REFERENCES steps(id), flops INTEGER, hardware_flops INTEGER,"
    " at_least INTEGER NOT NULL, why TEXT, device TEXT, dtype TEXT, peak_flops INTEGER, peak_of TEXT,"
    " why_peak TEXT);"
    "UPDATE models SET tree = NULL;"
    "UPDATE meta SET value = '8' WHERE key = 'schema';"
    "PRAGMA user_version = 8;";

const char *const lmi_schemas[LMI_SCHEMA_VERSION] = {first, second, third,   fourth,
                                                     fifth, sixth,  seventh, eighth};
