/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts names that a pickle imports: known to be harmless, known to run code, classes of somebody's own,
 * others. */
#include "read/torch/allowed.h"
#include "base/base.h"

#include <ctype.h>

typedef struct allowed {
    const char *module, *names;
} allowed;
static const allowed all[] = {
#define ALLOW(module, names) {module, names},
#include "read/torch/allowed.def"
#undef ALLOW
};

/* Modules, with all below them, whose functions run code, start programs, or read and write files. */
static const char runs[] = "os posix nt ntpath posixpath subprocess sys builtins __builtin__ runpy importlib "
                           "pty socket shutil asyncio "
                           "ctypes code codeop pickle _pickle cPickle marshal types operator _operator "
                           "functools webbrowser http urllib "
                           "urllib2 httplib requests ftplib smtplib pip commands popen2 tempfile "
                           "multiprocessing signal bdb pdb timeit trace "
                           "profile cProfile doctest zipimport imp pkgutil site distutils setuptools dill "
                           "cloudpickle joblib io _io threading "
                           "concurrent pydoc ensurepip venv idlelib lib2to3 logging inspect gc atexit "
                           "sqlite3 xmlrpc platform getpass";

static bool is_allowed(const char *module, const char *name) {
    if (strncmp(module, "__torch__", 9) == 0 && (!module[9] || module[9] == '.'))
        return true; /* of TorchScript, which is not Python */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].module, module) == 0 && lmi_listed(all[i].names, name)) return true;
    return false;
}

lam_import_kind lmi_import_kind(const char *module, const char *name) {
    char top[64] = "";
    const size_t n = strcspn(module, ".");
    if (is_allowed(module, name)) return LAM_IMPORT_KNOWN;
    if (n < sizeof top) memcpy(top, module, n);
    if (lmi_listed(runs, top)) return LAM_IMPORT_RUNS;
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    return isupper((unsigned char)*last) ? LAM_IMPORT_CLASS : LAM_IMPORT_OTHER;
}
