#include "common/security/launcher_name.h"

#include <array>
#include <string>

#include <sodium.h>

#include "wire/bus_generated.h"

namespace meshbus {
namespace {

std::uint64_t uuid_of(Bytes proof) {
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  ::crypto_generichash(hash.data(), hash.size(),
                       reinterpret_cast<const unsigned char*>(proof.data()), proof.size(), nullptr,
                       0);
  std::uint64_t uuid = 0;
  for (std::size_t i = 8; i-- > 0;) uuid = uuid << 8U | hash[i];
  return uuid;
}

}  // namespace

LauncherName LauncherName::draw() {
  LauncherName drawn{*Name::plain("client"), std::vector<std::uint8_t>(kProofSize)};
  ::randombytes_buf(drawn.proof.data(), drawn.proof.size());
  drawn.name = *Name::make("client", uuid_of(bytes_of(drawn.proof.data(), drawn.proof.size())));
  return drawn;
}

void LauncherName::introduce(wire::HelloT& hello) const {
  hello.peer = name.to_string();
  hello.token = proof;
}

bool is_drawn(const Name& name, Bytes proof) {
  if (proof.size() != LauncherName::kProofSize) return false;
  const auto expected = Name::make(name.base(), uuid_of(proof));
  return expected && *expected == name;
}

}  // namespace meshbus
