#include "common/security/token.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include <sodium.h>

namespace meshbus {

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
  const std::string text = std::string(proc) + "#" + std::to_string(incarnation);
  std::vector<std::uint8_t> token(crypto_auth_hmacsha256_BYTES);
  crypto_auth_hmacsha256_state state;
  ::crypto_auth_hmacsha256_init(&state, secret_.data(), secret_.size());
  ::crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                                  text.size());
  ::crypto_auth_hmacsha256_final(&state, token.data());
  ::sodium_memzero(&state, sizeof state);
  return token;
}

bool TokenMaker::verify(std::string_view proc, std::uint64_t incarnation,
                        const std::vector<std::uint8_t>& token) const {
  const auto expected = make(proc, incarnation);
  return token.size() == expected.size() &&
         ::sodium_memcmp(token.data(), expected.data(), expected.size()) == 0;
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
