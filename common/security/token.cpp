#include "common/security/token.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include <Poco/HMACEngine.h>
#include <Poco/SHA2Engine.h>

namespace meshbus {
namespace {

/// Poco's HMACEngine wants the sizes as constants of the engine.
struct Sha256 : Poco::SHA2Engine {
  enum { BLOCK_SIZE = 64, DIGEST_SIZE = 32 };
  Sha256() : Poco::SHA2Engine(Poco::SHA2Engine::SHA_256) {}
};

}  // namespace

Result<TokenMaker> TokenMaker::from_descriptor(int fd) {
  std::string secret(kSecretSize, '\0');
  const auto n = ::pread(fd, secret.data(), secret.size(), 0);
  if (n != static_cast<ssize_t>(kSecretSize))
    return fail(ErrorCode::io_error, "the warden's secret cannot be read from descriptor " +
                                         std::to_string(fd) + ": " +
                                         (n < 0 ? std::strerror(errno) : "too short"));
  return TokenMaker(std::move(secret));
}

std::vector<std::uint8_t> TokenMaker::make(std::string_view proc, std::uint64_t incarnation) const {
  Poco::HMACEngine<Sha256> hmac(secret_);
  hmac.update(std::string(proc) + "#" + std::to_string(incarnation));
  const auto& digest = hmac.digest();
  return {digest.begin(), digest.end()};
}

bool TokenMaker::verify(std::string_view proc, std::uint64_t incarnation,
                        const std::vector<std::uint8_t>& token) const {
  const auto expected = make(proc, incarnation);
  if (token.size() != expected.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    different |= static_cast<unsigned>(expected[i] ^ token[i]);
  return different == 0;
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  while (value == 0) {
    if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value) &&
        errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return value;
}

}  // namespace meshbus
