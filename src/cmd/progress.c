/* SPDX-License-Identifier: Apache-2.0
 *
 * The line on a terminal that shows how far long work is, and the host's chance to end it. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_NS = 500000000, EVERY_NS = 100000000 };

static void write_line(const lmi_progress *p, const char *text) {
    const lam_sink to = p->c->host->err;
    if (p->c->host->err_is_terminal) to.put(to.to, text, strlen(text));
}

static lam_status watch(void *self, uint64_t done, uint64_t all) {
    lmi_progress *p = self;
    char text[96];
    const int64_t now = lmi_unix_now();
    if (now < (p->last ? p->last + EVERY_NS : p->began + FIRST_NS)) return LAM_OK;
    p->last = now;
    snprintf(text, sizeof text, "\r\033[Klamina: %.40s ... %d %%", p->what,
             all ? (int)(100 * (double)done / (double)all) : 0);
    write_line(p, text);
    lam_status s = p->c->host->wait ? p->c->host->wait(p->c->host->self, 0) : LAM_OK;
    p->c->stopped = p->c->stopped || s != LAM_OK;
    return s;
}

lam_watcher lmi_progress_begin(lmi_progress *p, lmi_cli *c, const char *what) {
    *p = (lmi_progress){.c = c, .what = what, .began = lmi_unix_now()};
    return (lam_watcher){watch, p};
}

void lmi_progress_end(const lmi_progress *p) {
    if (p->last) write_line(p, "\r\033[K");
}
