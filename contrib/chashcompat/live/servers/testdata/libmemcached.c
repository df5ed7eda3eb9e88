/*
 * Says where libmemcached sends keys. Standard input has lines:
 *
 *   pool MODE HASH KETAMA_HASH   begins a pool; MODE is consistent, ketama, weighted or spy,
 *                                a hash is default or md5
 *   server HOST PORT WEIGHT      adds a server; a HOST with a slash before it is a socket
 *   hash KEY                     prints the index of the server of a key in hexadecimal
 *   store KEY                    prints it too, after storing the key with its client
 */
#include <libmemcached-1.0/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(memcached_return_t rc, memcached_st *pool, const char *what) {
  if (memcached_failed(rc)) {
    fprintf(stderr, "%s: %s\n", what, memcached_strerror(pool, rc));
    exit(1);
  }
}

static memcached_hash_t hash_of(const char *name) {
  return strcmp(name, "md5") == 0 ? MEMCACHED_HASH_MD5 : MEMCACHED_HASH_DEFAULT;
}

static void set_mode(memcached_st *pool, const char *mode, const char *hash, const char *ketama_hash) {
  check(memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_HASH, hash_of(hash)), pool, "hash");
  check(memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_KETAMA_HASH, hash_of(ketama_hash)), pool, "ketama hash");
  if (strcmp(mode, "consistent") == 0)
    check(memcached_behavior_set_distribution(pool, MEMCACHED_DISTRIBUTION_CONSISTENT), pool, mode);
  else if (strcmp(mode, "ketama") == 0)
    check(memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_KETAMA, 1), pool, mode);
  else if (strcmp(mode, "weighted") == 0)
    check(memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1), pool, mode);
  else
    check(memcached_behavior_set_distribution(pool, MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY), pool, mode);
}

int main(void) {
  memcached_st *pool = NULL;
  char line[4096], a[1024], b[64], c[64];
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "pool %1023s %63s %63s", a, b, c) == 3) {
      if (pool) memcached_free(pool);
      pool = memcached_create(NULL);
      set_mode(pool, a, b, c);
    } else if (sscanf(line, "server %1023s %63s %63s", a, b, c) == 3) {
      if (a[0] == '/')
        check(memcached_server_add_unix_socket_with_weight(pool, a, atoi(c)), pool, a);
      else
        check(memcached_server_add_with_weight(pool, a, atoi(b), strtoul(c, NULL, 10)), pool, a);
    } else {
      char key[1024];
      size_t n = 0;
      int store = line[0] == 's';
      unsigned byte;
      for (const char *hex = strchr(line, ' ') + 1; n < sizeof key && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        key[n++] = (char)byte;
      if (store) check(memcached_set(pool, key, n, "1", 1, 0, 0), pool, "set");
      printf("%u\n", memcached_generate_hash(pool, key, n));
    }
  }
  return 0;
}
