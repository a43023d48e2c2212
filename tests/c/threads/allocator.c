/* SPDX-License-Identifier: Apache-2.0
 * A library that exports two functions under the names of torch's, for test_threads. */
#include <stdlib.h>

void *_ZN3c109alloc_cpuEm(size_t bytes);
void _ZN3c108free_cpuEPv(void *at);
void *allocate_inside(size_t bytes);

void *_ZN3c109alloc_cpuEm(size_t bytes) { return malloc(bytes ? bytes : 1); }
void _ZN3c108free_cpuEPv(void *at) { free(at); }

/* Its own call goes through an entry as others' calls do; here one that the loader fills at the first call.
 */
void *allocate_inside(size_t bytes) { return _ZN3c109alloc_cpuEm(bytes); }
