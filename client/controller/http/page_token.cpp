#include "client/controller/http/page_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <sodium.h>

#include "common/base/os_error.h"
#include "common/base/unique_fd.h"

namespace meshbus {
namespace {

constexpr std::size_t kRandomBytes = 32;
constexpr std::size_t kShortest = 16;

std::string make_token() {
  std::array<unsigned char, kRandomBytes> random{};
  randombytes_buf(random.data(), random.size());
  std::array<char, kRandomBytes * 2 + 1> text{};
  sodium_bin2hex(text.data(), text.size(), random.data(), random.size());
  return text.data();
}

Result<std::string> make_token_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                             S_IRUSR | S_IWUSR));
  if (!file) return fail(ErrorCode::io_error, os_error(path));
  const std::string token = make_token();
  const std::string line = token + "\n";
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    const auto why = os_error(path);
    // Half a token must not be found at the next start.
    ::unlink(path.c_str());
    return fail(ErrorCode::io_error, why);
  }
  return token;
}

}  // namespace

Result<std::string> read_page_token(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return make_token_file(path);
  if (!file) return fail(ErrorCode::io_error, os_error(path));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail(ErrorCode::io_error, os_error(path));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorCode::configuration_error,
                path + ": only its owner may read a file with a token (chmod 600)");
  std::array<char, 1024> bytes{};
  const auto got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return fail(ErrorCode::io_error, os_error(path));
  std::string token(bytes.data(), static_cast<std::size_t>(got));
  token = token.substr(0, token.find_first_of("\r\n"));
  if (token.size() < kShortest)
    return fail(ErrorCode::configuration_error,
                path + ": a token has at least " + std::to_string(kShortest) + " characters");
  return token;
}

}  // namespace meshbus
