/* SPDX-License-Identifier: Apache-2.0
 * SQLite is found when the first recording is opened: a process that opens none does not take the time to
 * load it. Two copies in one process would release each other's locks, so a host with a copy, such as
 * Python, names it (lmi_sqlite_of). The functions have SQLite's names; lmi_sqlite must have returned LAM_OK
 * before any of them is called. */
#ifndef LMI_BASE_SQLITE_H
#define LMI_BASE_SQLITE_H

#include "base/base.h"

/* The VFS that accesses files without locks. */
#ifdef _WIN32
#define LMI_SQLITE_LOCKLESS "win32-none"
#else
#define LMI_SQLITE_LOCKLESS "unix-none"
#endif

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef long long sqlite3_int64;
typedef unsigned long long sqlite3_uint64;
enum {
#define FUNCTION(result, name, parameters)
#define CONSTANT(name, value) name = value,
#include "base/sqlite.def"
#undef FUNCTION
#undef CONSTANT
};
#define SQLITE_STATIC ((void (*)(void *))0)

typedef struct lmi_sqlite_calls {
#define FUNCTION(result, name, parameters) result(*name) parameters;
#define CONSTANT(name, value)
#include "base/sqlite.def"
#undef FUNCTION
#undef CONSTANT
} lmi_sqlite_calls;
const lmi_sqlite_calls *lmi_sqlite_found(void); /* NULL before lmi_sqlite returned LAM_OK */

#define sqlite3_libversion lmi_sqlite_found()->libversion
#define sqlite3_libversion_number lmi_sqlite_found()->libversion_number
#define sqlite3_open lmi_sqlite_found()->open
#define sqlite3_open_v2 lmi_sqlite_found()->open_v2
#define sqlite3_close lmi_sqlite_found()->close
#define sqlite3_busy_timeout lmi_sqlite_found()->busy_timeout
#define sqlite3_db_config lmi_sqlite_found()->db_config
#define sqlite3_limit lmi_sqlite_found()->limit
#define sqlite3_file_control lmi_sqlite_found()->file_control
#define sqlite3_wal_checkpoint_v2 lmi_sqlite_found()->wal_checkpoint_v2
#define sqlite3_errcode lmi_sqlite_found()->errcode
#define sqlite3_extended_errcode lmi_sqlite_found()->extended_errcode
#define sqlite3_system_errno lmi_sqlite_found()->system_errno
#define sqlite3_errmsg lmi_sqlite_found()->errmsg
#define sqlite3_errstr lmi_sqlite_found()->errstr
#define sqlite3_exec lmi_sqlite_found()->exec
#define sqlite3_prepare_v2 lmi_sqlite_found()->prepare_v2
#define sqlite3_step lmi_sqlite_found()->step
#define sqlite3_reset lmi_sqlite_found()->reset
#define sqlite3_finalize lmi_sqlite_found()->finalize
#define sqlite3_last_insert_rowid lmi_sqlite_found()->last_insert_rowid
#define sqlite3_bind_parameter_count lmi_sqlite_found()->bind_parameter_count
#define sqlite3_clear_bindings lmi_sqlite_found()->clear_bindings
#define sqlite3_bind_null lmi_sqlite_found()->bind_null
#define sqlite3_bind_int64 lmi_sqlite_found()->bind_int64
#define sqlite3_bind_text lmi_sqlite_found()->bind_text
#define sqlite3_bind_text64 lmi_sqlite_found()->bind_text64
#define sqlite3_bind_blob64 lmi_sqlite_found()->bind_blob64
#define sqlite3_column_type lmi_sqlite_found()->column_type
#define sqlite3_column_int lmi_sqlite_found()->column_int
#define sqlite3_column_int64 lmi_sqlite_found()->column_int64
#define sqlite3_column_double lmi_sqlite_found()->column_double
#define sqlite3_column_text lmi_sqlite_found()->column_text
#define sqlite3_column_blob lmi_sqlite_found()->column_blob
#define sqlite3_column_bytes lmi_sqlite_found()->column_bytes
#define sqlite3_mprintf lmi_sqlite_found()->mprintf
#define sqlite3_free lmi_sqlite_found()->free

/* Finds SQLite, unless it was found before. Any thread may call it. LAM_UNSUPPORTED: there is
 * none, or it is older than recordings need. */
lam_status lmi_sqlite(lam_error *e);

#endif
