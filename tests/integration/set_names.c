// SPDX-License-Identifier: Apache-2.0
// Loaded before a program (LD_PRELOAD) it says which addresses names have. The variable SET_NAMES_FILE names
// a file, which is read at each look-up: a line is an address and a name, `!` and a name that there is not,
// or `-` and one whose server does not answer. All other names are as they are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kNoAnswerSeconds = 90 };

typedef int LookUp(const char*, const char*, const struct addrinfo*, struct addrinfo**);

int getaddrinfo(const char* name, const char* service, const struct addrinfo* hints,
                struct addrinfo** found) {
  LookUp* const look_up = (LookUp*)dlsym(RTLD_NEXT, "getaddrinfo");
  const char* const path = getenv("SET_NAMES_FILE");
  FILE* const file = name != NULL && path != NULL ? fopen(path, "re") : NULL;
  if (file == NULL) return look_up(name, service, hints, found);
  struct addrinfo** end = found;
  *end = NULL;
  int silent = 0, missing = 0;
  for (char address[64], of[256]; fscanf(file, "%63s %255s", address, of) == 2;) {
    if (strcmp(name, of) != 0) continue;
    silent |= strcmp(address, "-") == 0;
    missing |= strcmp(address, "!") == 0;
    if (silent || missing || look_up(address, service, hints, end) != 0) continue;
    while (*end != NULL)
      end = &(*end)->ai_next;
  }
  fclose(file);
  if (silent) sleep(kNoAnswerSeconds);
  if (silent || missing) return silent ? EAI_AGAIN : EAI_NONAME;
  return *found != NULL ? 0 : look_up(name, service, hints, found);
}
