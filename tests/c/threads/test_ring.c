/* SPDX-License-Identifier: Apache-2.0
 * The ring between the thread that trains and the one that writes, under ThreadSanitizer: every packet comes
 * out once, in order, with what was put into it. */
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PACKETS = 20 * LMI_RING, KEPT = 2 * LMI_RING };

static lmi_ring ring;
static lmi_packet packets[KEPT]; /* more than are ever under way */
static size_t size;              /* of each */
static int64_t refused, most;

static void *train(void *arg) {
    (void)arg;
    for (int64_t i = 0; i < PACKETS; i++) {
        lmi_packet *p = &packets[i % KEPT];
        p->number = i;
        p->arena.used = size;
        while (!lmi_ring_push(&ring, p)) refused++;
    }
    return NULL;
}

static bool write_all(void) {
    bool ok = true;
    for (int64_t i = 0; i < PACKETS; i++) {
        lmi_packet *p;
        while (!(p = lmi_ring_pop(&ring))) {}
        int64_t bytes = (int64_t)atomic_load(&ring.bytes);
        most = bytes > most ? bytes : most;
        ok = ok && p->number == i && p->arena.used == size;
        p->number = -1; /* it is this thread's now */
    }
    return ok && !lmi_ring_pop(&ring) && atomic_load(&ring.bytes) == 0;
}

int main(void) {
    static const size_t sizes[] = {1, LMI_RING_BYTES / 3};
    int failures = 0;
    for (int i = 0; i < 2; i++) {
        pthread_t other;
        size = sizes[i];
        refused = most = 0;
        if (pthread_create(&other, NULL, train, NULL)) return 1;
        bool ok = write_all();
        pthread_join(other, NULL);
        failures += !ok || most > LMI_RING_BYTES;
        if (!ok) fprintf(stderr, "packets of %zu bytes, %lld refused\n", size, (long long)refused);
    }
    lmi_packet *p = &packets[0];
    for (int k = 0; k < LMI_RING; k++) failures += !lmi_ring_push(&ring, (p->arena.used = 1, p));
    failures += lmi_ring_push(&ring, p); /* it is full */
    return failures != 0;
}
