#include "self_contained.hpp"

#include <nss.h>
#include <openssl/crypto.h>

#include <array>

namespace combu {

void stay_self_contained() {
  // Other services of nsswitch.conf are libraries of the machine's own libc, which this program's cannot
  // load.
  struct Lookup {
    const char* database;
    const char* services;
  };
  constexpr std::array<Lookup, 4> k_lookups = {
      {{"hosts", "files dns"}, {"passwd", "files"}, {"group", "files"}, {"services", "files"}}};
  for (const Lookup& lookup : k_lookups) (void)__nss_configure_lookup(lookup.database, lookup.services);
  // As little can the machine's openssl.cnf have libraries loaded.
  (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

}  // namespace combu
