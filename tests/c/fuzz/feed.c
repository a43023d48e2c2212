/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds files to a fuzzer where there is no libFuzzer: `feed FOLDER...` reads every file of the folders. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST = 1 << 20 };

/* In memory of its own size, so that who reads too far is seen. */
static int feed(const char *path) {
    static uint8_t all[MOST];
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = fread(all, 1, sizeof all, f);
    fclose(f);
    uint8_t *data = malloc(n ? n : 1);
    if (!data) return 0;
    for (size_t i = 0; i < n; i++) data[i] = all[i];
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

int main(int argc, char **argv) {
    int fed = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        for (struct dirent *at; folder && (at = readdir(folder));) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s", argv[i], at->d_name);
            if (at->d_name[0] != '.') fed += feed(path);
        }
        if (folder) closedir(folder);
    }
    printf("%d files\n", fed);
    return fed ? 0 : 1;
}
