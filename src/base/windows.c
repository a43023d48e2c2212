/* SPDX-License-Identifier: Apache-2.0
 *
 * The same functions on Windows, as far as possible. File names are UTF-8, which the C library accepts after
 * lmi_start. */
#include "base/system.h"

#ifdef _WIN32

#include <locale.h>
#include <stdlib.h>

#include <windows.h>

#include <shellapi.h>

/* -- texts ------------------------------------------------------------------------------------- */

/* Converts UTF-8 to wide characters. NULL: memory ran out, or the text is not valid UTF-8. The caller frees
 * the result. */
static wchar_t *wide_of(const char *text) {
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = n > 0 ? calloc((size_t)n, sizeof *wide) : NULL;
    if (wide) MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, n);
    return wide;
}

static char *utf8_of(const wchar_t *wide) {
    int n = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = n > 0 ? calloc((size_t)n, 1) : NULL;
    if (text) WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, n, NULL, NULL);
    return text;
}

/* -- the process ------------------------------------------------------------------------------- */

/* The converted arguments are never freed. If memory runs out, the arguments stay unchanged. */
void lmi_start(int *argc, char ***argv) {
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **texts = wide ? calloc((size_t)n + 1, sizeof *texts) : NULL;
    bool all = texts;
    for (int i = 0; all && i < n; i++) all = (texts[i] = utf8_of(wide[i])) != NULL;
    if (all) {
        *argc = n;
        *argv = texts;
    }
    LocalFree(wide);
    setlocale(LC_CTYPE, ".UTF-8");
    _setmode(STDOUT_FILENO, _O_BINARY);
    _setmode(STDERR_FILENO, _O_BINARY);
}

/* Sets the console to UTF-8; a pipe gets UTF-8 too. */
bool lmi_is_terminal_utf8(void) {
    SetConsoleOutputCP(CP_UTF8);
    HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD mode;
    if (GetConsoleMode(out, &mode)) SetConsoleMode(out, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    return true;
}

void lmi_terminal_size(int32_t *columns, int32_t *rows) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &info)) return;
    *columns = info.srWindow.Right - info.srWindow.Left + 1;
    *rows = info.srWindow.Bottom - info.srWindow.Top + 1;
}

/* No model runs on Windows, so no recording is of a process of this machine. */
bool lmi_is_gone(const char *host, int64_t pid) {
    (void)host, (void)pid;
    return false;
}

bool lmi_feed_shell(char *line, const char *text, size_t n) {
    (void)line, (void)text, (void)n;
    return false;
}

/* -- files ------------------------------------------------------------------------------------- */

ssize_t lmi_read_at(int fd, void *to, size_t n, uint64_t at) {
    OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
    DWORD done = 0, most = n < 1u << 30 ? (DWORD)n : 1u << 30;
    if (ReadFile((HANDLE)_get_osfhandle(fd), to, most, &done, &where)) return (ssize_t)done;
    if (GetLastError() == ERROR_HANDLE_EOF) return 0;
    errno = EIO;
    return -1;
}

/* On Windows no such file is a pipe with a slow writer. */
int lmi_wait_readable(int fd, int ms) {
    (void)fd, (void)ms;
    return 1;
}

int lmi_rename(const char *from, const char *to) {
    wchar_t *a = wide_of(from), *b = wide_of(to);
    bool done = a && b && MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING);
    free(a);
    free(b);
    errno = EACCES; /* as for a file that another program has open */
    return done ? 0 : -1;
}

int64_t lmi_disk_size(const char *file) {
    wchar_t *wide = wide_of(file);
    DWORD high = 0, low = wide ? GetCompressedFileSizeW(wide, &high) : INVALID_FILE_SIZE;
    free(wide);
    return low == INVALID_FILE_SIZE ? 0 : (int64_t)((uint64_t)high << 32 | low);
}

/* -- programs ------------------------------------------------------------------------------------ */

bool lmi_ask_program(const char *const *argv, char *to, size_t room) {
    (void)argv, (void)to, (void)room;
    return false;
}

/* -- confinement --------------------------------------------------------------------------------- */

/* Nothing is confined here (confine.c), so nothing needs another process. */
bool lmi_hand_start(lmi_hand *all, int n, int i, int (*work)(void *of, int from), void *of) {
    (void)all, (void)n, (void)i, (void)work, (void)of;
    return false;
}

int lmi_hand_end(lmi_hand *h) {
    (void)h;
    return 0;
}

/* -- libraries --------------------------------------------------------------------------------- */

/* Never loads from the current folder. */
void *dlopen(const char *file, int flags) {
    if (!file) return GetModuleHandleW(NULL);
    wchar_t *wide = wide_of(file);
    HMODULE library = NULL;
    if (wide && flags == RTLD_NOLOAD)
        library = GetModuleHandleW(wide);
    else if (wide)
        library = LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    free(wide);
    return library;
}

void *dlsym(void *library, const char *name) {
    FARPROC function = GetProcAddress(library, name);
    void *at;
    memcpy(&at, &function, sizeof at);
    return at;
}

int dlclose(void *library) { return FreeLibrary(library) ? 0 : -1; }

int dladdr(const void *at, Dl_info *out) {
    HMODULE library;
    wchar_t wide[sizeof out->room / 4] = L"";
    const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExW(how, at, &library)) return 0;
    GetModuleFileNameW(library, wide, sizeof wide / sizeof *wide - 1);
    char *text = utf8_of(wide);
    if (text) out->dli_fname = strcpy(out->room, text);
    free(text);
    return text != NULL;
}

#endif
