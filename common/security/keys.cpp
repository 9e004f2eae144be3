#include "common/security/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "common/base/os_error.h"
#include "common/base/unique_fd.h"
#include "common/config/config.h"
#include "common/zmtp/curve_key.h"
#include "wire/codes_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kLargestFile = 16384;
constexpr std::string_view kPublic = "public-key ";
constexpr std::string_view kSecret = "secret-key ";
/// As many keys of one holder: the new one, and those that are being replaced.
constexpr std::size_t kMostKeys = 16;

tl::unexpected<Error> refuse(std::string why) {
  return fail(ErrorCode::configuration_error, std::move(why));
}

bool is_key(std::string_view text) {
  return CurveKey::from_text(text).has_value();
}

Result<UniqueFd> open_file(const std::string& path, struct stat& status) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd)
    return fail(errno == ENOENT ? ErrorCode::not_exist : ErrorCode::configuration_error,
                "key file " + path + ": " + os_error("open"));
  if (::fstat(fd.get(), &status) != 0) return refuse("key file " + path + ": " + os_error("fstat"));
  if (!S_ISREG(status.st_mode)) return refuse("key file " + path + " is no regular file");
  return fd;
}

Result<std::string> read_all(const UniqueFd& fd, const std::string& path) {
  std::string text(kLargestFile + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse("key file " + path + ": " + os_error("read"));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kLargestFile)
    return refuse("key file " + path + " is no key file: it is larger than " +
                  std::to_string(kLargestFile) + " bytes");
  text.resize(size);
  return text;
}

/// The keys of the lines that begin so. Errors: configuration_error (anything else that is no
/// comment).
Result<void> parse_keys(const std::string& path, std::string_view text,
                        std::vector<KeyGrant>& public_keys, std::vector<std::string>& secret_keys) {
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    // The line itself is not quoted: it may be a secret.
    const bool is_public = line.starts_with(kPublic);
    if ((!is_public && !line.starts_with(kSecret)) ||
        !is_key(line.substr(kPublic.size(), is_public ? kKeySize : line.npos)) ||
        (line.size() > kPublic.size() + kKeySize && line[kPublic.size() + kKeySize] != ' '))
      return refuse("key file " + path + ", line " + std::to_string(number) +
                    ": expected a comment (#), or \"public-key\" or \"secret-key\" and 40 "
                    "characters of Z85; make a new one with meshbus keygen");
    line.remove_prefix(kPublic.size());
    if (!is_public) {
      secret_keys.emplace_back(line);
      continue;
    }
    auto grant = KeyGrant::parse(line, ' ');
    if (!grant)
      return refuse("key file " + path + ", line " + std::to_string(number) + ": " +
                    grant.error().detail());
    public_keys.push_back(std::move(*grant));
  }
  return {};
}

/// `mode` is that of a new file; one that root has handed to a group stays that group's.
Result<void> write_file(const std::string& path, const std::string& text, mode_t mode) {
  const std::string part = path + ".part" + std::to_string(::getpid());
  const auto failed = [&](const std::string& call) {
    auto error = fail(ErrorCode::io_error, "cannot write " + path + ": " + os_error(call));
    ::unlink(part.c_str());
    return error;
  };
  // Never for a moment readable by others.
  UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return fail(ErrorCode::io_error, "cannot write " + path + ": " + os_error("open " + part));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return failed("write");
  struct stat former{};
  if (::lstat(path.c_str(), &former) == 0 && S_ISREG(former.st_mode) && former.st_uid == 0 &&
      ::geteuid() == 0 && former.st_gid != 0) {
    if (::fchown(fd.get(), 0, former.st_gid) != 0) return failed("fchown");
    mode |= former.st_mode & 0040;
  }
  if (::fchmod(fd.get(), mode) != 0) return failed("fchmod");
  if (::fsync(fd.get()) != 0) return failed("fsync");
  if (::rename(part.c_str(), path.c_str()) != 0) return failed("rename");
  return {};
}

}  // namespace

Result<KeyPair> KeyPair::make() {
  const auto pair = CurveKeyPair::make();
  return KeyPair{pair.public_key.to_text(), pair.secret_key.to_text()};
}

std::optional<wire::Role> role_of_key(std::string_view word) {
  for (const auto role : kKeyRoles) {
    if (word_of(role) == word) return role;
  }
  return std::nullopt;
}

bool is_holder_name(std::string_view name) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("-_.:%[]@+", c) != nullptr;
  };
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         name.find('\0') == std::string_view::npos && std::all_of(name.begin(), name.end(), fits);
}

Result<void> check_trusted(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    return fail(errno == ENOENT ? ErrorCode::not_exist : ErrorCode::configuration_error,
                path + ": " + os_error("stat") +
                    (errno == EACCES ? "; chmod a+rx the folders above it" : ""));
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return refuse(path + " belongs to user " + std::to_string(status.st_uid) +
                  ", who could put any key there: do this as that user (sudo -u), or chown it to "
                  "user " +
                  std::to_string(::geteuid()));
  if ((status.st_mode & 022) != 0)
    return refuse(path + " can be written by others, who could put any key there: chmod go-w " +
                  path);
  return {};
}

Result<KeyPair> read_key_pair(const std::string& path) {
  struct stat status{};
  const auto fd = open_file(path, status);
  if (!fd)
    return refuse(fd.error().detail() +
                  "; make one with meshbus keygen, or say where yours is: keys.own");
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return refuse("secret key " + path + " belongs to user " + std::to_string(status.st_uid) +
                  "; chown it to user " + std::to_string(::geteuid()));
  // What an administrator hands to a service comes as root:GROUP 0640 (as for PostgreSQL, say).
  const bool is_handed = status.st_uid == 0 && (::geteuid() != 0 || status.st_gid != 0);
  const mode_t closed = is_handed ? 027 : 077;
  if ((status.st_mode & closed) != 0)
    return refuse("secret key " + path + " is open to others (mode 0" +
                  std::string(1, static_cast<char>('0' + (status.st_mode >> 6 & 7))) +
                  static_cast<char>('0' + (status.st_mode >> 3 & 7)) +
                  static_cast<char>('0' + (status.st_mode & 7)) + "): chmod 600 " + path +
                  ", and if others may have read it, make a new one");
  const auto text = read_all(*fd, path);
  if (!text) return fail(text.error());
  std::vector<KeyGrant> public_keys;
  std::vector<std::string> secret_keys;
  if (auto parsed = parse_keys(path, *text, public_keys, secret_keys); !parsed)
    return fail(parsed.error());
  if (public_keys.size() != 1 || secret_keys.size() != 1)
    return refuse("key file " + path + " has " + std::to_string(secret_keys.size()) +
                  " secret and " + std::to_string(public_keys.size()) +
                  " public keys; expected one of each");
  const auto secret = CurveKey::from_text(secret_keys.front());
  if (!secret || public_keys.front().key != secret->make_public().to_text())
    return refuse("key file " + path + ": the two keys do not belong together");
  return KeyPair{public_keys.front().key, secret_keys.front()};
}

Result<std::vector<KeyGrant>> read_key_grants(const std::string& path) {
  struct stat status{};
  const auto fd = open_file(path, status);
  if (!fd) return fail(fd.error());
  if (auto trusted = check_trusted(path); !trusted) return fail(trusted.error());
  const auto text = read_all(*fd, path);
  if (!text) return fail(text.error());
  std::vector<KeyGrant> public_keys;
  std::vector<std::string> secret_keys;
  if (auto parsed = parse_keys(path, *text, public_keys, secret_keys); !parsed)
    return fail(parsed.error());
  if (!secret_keys.empty())
    return refuse("key file " + path +
                  " has a secret key in it, where public ones belong: it is known to others now, "
                  "make a new one");
  if (public_keys.empty()) return refuse("key file " + path + " has no key in it");
  if (public_keys.size() > kMostKeys)
    return refuse("key file " + path + " has more than " + std::to_string(kMostKeys) + " keys");
  return public_keys;
}

Result<std::vector<std::string>> read_public_keys(const std::string& path) {
  const auto grants = read_key_grants(path);
  if (!grants) return fail(grants.error());
  std::vector<std::string> keys;
  for (const KeyGrant& grant : *grants) keys.push_back(grant.key);
  return keys;
}

Result<void> write_key_pair(const std::string& path, const KeyPair& keys, std::string_view name) {
  return write_file(path,
                    "# meshbus: the secret key of " + std::string(name) +
                        ". Who can read this file can be " + std::string(name) + ".\n" +
                        std::string(kPublic) + keys.public_key + "\n" + std::string(kSecret) +
                        keys.secret_key + "\n",
                    0600);
}

Result<void> write_key_grants(const std::string& path, const std::vector<KeyGrant>& grants,
                              std::string_view name) {
  std::string text = "# meshbus: the public key of " + std::string(name) + "\n";
  for (const auto& grant : grants) text += std::string(kPublic) + grant.to_string(' ') + "\n";
  return write_file(path, text, 0644);
}

Result<void> write_public_keys(const std::string& path, const std::vector<std::string>& keys,
                               std::string_view name) {
  return write_key_grants(path, {keys.begin(), keys.end()}, name);
}

std::string KeyDirectory::default_path() {
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  if (xdg != nullptr && xdg[0] == '/') return std::string(xdg) + "/meshbus/keys";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.config/meshbus/keys";
  return {};
}

std::optional<KeyDirectory> KeyDirectory::find(const Config& config) {
  std::string path = config.path(keys::keys_directory);
  if (path == "/dev/null") return std::nullopt;
  if (path.empty()) {
    path = default_path();
    std::error_code ignored;
    if (path.empty() || !std::filesystem::is_directory(path, ignored)) return std::nullopt;
  }
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return KeyDirectory(std::move(path), config.path(keys::keys_own));
}

std::string KeyDirectory::public_path(wire::Role role, std::string_view name) const {
  return path_ + "/authorised/" + std::string(word_of(role)) + "/" + std::string(name) + ".pub";
}

Result<std::string> KeyDirectory::own_path(const std::optional<HostAddr>& host) const {
  if (!own_.empty()) return own_;
  std::error_code error;
  if (host && host->transport() == Transport::tcp) {
    for (const auto& name : {std::string(host->host()) + ":" + std::to_string(host->port()),
                             std::string(host->host())}) {
      if (std::filesystem::exists(secret_path(name), error)) return secret_path(name);
    }
  }
  std::vector<std::string> found;
  std::filesystem::directory_iterator at(path_, error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".key") found.push_back(at->path().string());
  }
  if (error) return refuse("keys.directory " + path_ + " cannot be read: " + error.message());
  if (found.size() == 1) return found.front();
  const std::string who = host ? "host " + std::string(host->host()) : "NAME";
  if (found.empty())
    return refuse("there is no secret key in " + path_ + ": make one with meshbus keygen " +
                  (host ? who : "operator " + who));
  std::sort(found.begin(), found.end());
  std::string all;
  for (std::size_t i = 0; i < found.size() && i < 4; ++i) all += (i == 0 ? "" : ", ") + found[i];
  return refuse("which of the " + std::to_string(found.size()) + " secret keys in " + path_ +
                " is ours (" + all + (found.size() > 4 ? ", ..." : "") + ")? Say so by keys.own" +
                (host ? ", or make one of that name: meshbus keygen " + who : ""));
}

Result<std::vector<KeyGrant>> KeyDirectory::keys_of_host(const HostAddr& host) const {
  const std::string name(host.host());
  const std::string with_port = name + ":" + std::to_string(host.port());
  for (const auto& one : {with_port, name}) {
    if (!is_holder_name(one)) continue;
    auto keys = read_key_grants(public_path(wire::Role::host, one));
    if (!keys && keys.error().code() == ErrorCode::not_exist) continue;
    if (!keys) return keys;
    const std::int64_t now = std::time(nullptr);
    const std::int64_t last = keys->front().expires.value_or(0);
    std::erase_if(*keys, [&](const KeyGrant& grant) { return grant.is_expired(now); });
    if (keys->empty())
      return refuse("the key of host " + one + " expired at " + rfc3339_text(last) +
                    ": make a new one on that host by meshbus keygen --rotate host " + one +
                    ", and put its .pub in " + public_path(wire::Role::host, one));
    return keys;
  }
  return refuse("the public key of host " + name + " is not known here: put it in " +
                public_path(wire::Role::host, name) +
                " (it is made on that host by meshbus keygen host " + name +
                "); without keys at all: keys.directory=/dev/null, and --insecure there");
}

wire::Role KeyDirectory::ceiling_of_host(const HostAddr& host) const {
  const auto keys = keys_of_host(host);
  // Without a key there is no connection.
  if (!keys) return wire::Role::none;
  wire::Role lowest = wire::Role::operate;
  for (const KeyGrant& grant : *keys) lowest = std::min(lowest, grant.ceiling);
  return lowest;
}

Result<CurveKeys> KeyDirectory::for_connection(const HostAddr& to,
                                               const std::optional<HostAddr>& own_host) const {
  const auto path = own_path(own_host);
  if (!path) return fail(path.error());
  auto own = read_key_pair(*path);
  if (!own) return fail(own.error());
  const auto known = keys_of_host(to);
  if (!known) return fail(known.error());
  std::vector<std::string> servers;
  for (const KeyGrant& grant : *known) servers.push_back(grant.key);
  return CurveKeys{std::move(own->public_key), std::move(own->secret_key), std::move(servers),
                   *path};
}

std::function<Result<CurveKeys>()> keys_for(const std::optional<KeyDirectory>& directory,
                                            const HostAddr& to,
                                            const std::optional<HostAddr>& own_host) {
  if (!directory || to.transport() != Transport::tcp) return {};
  return [directory = *directory, to, own_host] { return directory.for_connection(to, own_host); };
}

}  // namespace meshbus
