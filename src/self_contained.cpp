#include "self_contained.hpp"

#include <nss.h>
#include <openssl/crypto.h>

#include <array>

namespace combu {

void stay_self_contained() {
  // Use only services that are part of libc. All other services that nsswitch.conf can name are shared
  // libraries for the machine's libc, which a statically linked libc cannot load.
  struct Lookup {
    const char* database;
    const char* services;
  };
  constexpr std::array<Lookup, 4> k_lookups = {
      {{"hosts", "files dns"}, {"passwd", "files"}, {"group", "files"}, {"services", "files"}}};
  for (const Lookup& lookup : k_lookups) (void)__nss_configure_lookup(lookup.database, lookup.services);
  // Ignore the machine's openssl.cnf, which can make OpenSSL load shared libraries.
  (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

}  // namespace combu
