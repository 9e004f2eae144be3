#include "cli/support/contexts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "common/base/did_you_mean.h"
#include "common/base/os_error.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

tl::unexpected<Error> mistake(std::string why) {
  return fail(ErrorCode::configuration_error, std::move(why));
}

/// Who may write there says where we connect to, and with which key. Errors: configuration_error:
/// that is not us alone.
Result<void> check_ours(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return mistake(path + ": " + os_error("stat"));
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return mistake(path + " belongs to user " + std::to_string(status.st_uid) +
                   ": chown it to user " + std::to_string(::geteuid()));
  if ((status.st_mode & 022) != 0)
    return mistake(path + " can be written by others: chmod go-w " + path);
  return {};
}

Result<std::string> read_trusted(const std::string& path) {
  if (auto fine = check_ours(path); !fine) return fail(fine.error());
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(file && text << file.rdbuf())) return mistake(path + " cannot be read");
  return text.str();
}

Result<void> write_whole(const std::string& path, const std::string& text) {
  const std::string part = path + ".part" + std::to_string(::getpid());
  const auto failed = [&](const std::string& call) {
    auto error = fail(ErrorCode::io_error, "cannot write " + path + ": " + os_error(call));
    ::unlink(part.c_str());
    return error;
  };
  const UniqueFd fd(
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return fail(ErrorCode::io_error, "cannot write " + path + ": " + os_error("open " + part));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return failed("write");
  if (::fsync(fd.get()) != 0) return failed("fsync");
  if (::rename(part.c_str(), path.c_str()) != 0) return failed("rename");
  return {};
}

}  // namespace

bool is_context_name(std::string_view name) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 63 && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), fits);
}

ContextStore ContextStore::of_user() {
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  if (xdg != nullptr && xdg[0] == '/') return ContextStore(std::string(xdg) + "/meshbus/contexts");
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/')
    return ContextStore(std::string(home) + "/.config/meshbus/contexts");
  return ContextStore("");
}

bool ContextStore::has(const std::string& name) const {
  std::error_code ignored;
  return !directory_.empty() && is_context_name(name) &&
         fs::exists(fs::symlink_status(path_of(name), ignored));
}

Result<HostContext> ContextStore::read(const std::string& name) const {
  if (!is_context_name(name))
    return mistake("'" + name +
                   "' is no name of a context: letters, digits, '_', '-' and '.', 63 at most");
  if (!has(name)) {
    const auto all = names();
    if (!all) return fail(all.error());
    std::string there;
    for (const auto& one : *all) there += (there.empty() ? "" : ", ") + one;
    const auto near = did_you_mean(name, *all);
    return fail(ErrorCode::not_exist,
                "there is no context " + name +
                    (!near.empty() ? "; did you mean " + std::string(near) + "?"
                     : there.empty()
                         ? "; there is none at all: meshbus context add NAME --hosts ... makes one"
                         : "; there are: " + there));
  }
  const auto path = path_of(name);
  const auto text = read_trusted(path);
  if (!text) return fail(text.error().within("context " + name));
  const auto json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto hosts = json.is_object() ? json.find("hosts") : json.end();
  if (!json.is_object() || hosts == json.end() || !hosts->is_string())
    return mistake("context " + name + ": " + path +
                   " is not understood; make it again: meshbus context add --replace " + name +
                   " ...");
  HostContext context{hosts->get<std::string>(), {}};
  if (const auto settings = json.find("settings");
      settings != json.end() && settings->is_object()) {
    for (const auto& [key, value] : settings->items()) {
      if (value.is_string()) context.settings.emplace_back(key, value.get<std::string>());
    }
  }
  return context;
}

Result<void> ContextStore::make_directory() const {
  if (directory_.empty())
    return mistake("where shall contexts lie? There is no home directory (HOME)");
  std::error_code error;
  fs::create_directories(fs::path(directory_).parent_path(), error);
  if (error)
    return fail(ErrorCode::io_error, "cannot make " + fs::path(directory_).parent_path().string() +
                                         ": " + error.message());
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_error, "cannot make " + directory_ + ": " + os_error("mkdir"));
  return check_ours(directory_);
}

Result<void> ContextStore::write(const std::string& name, const HostContext& context) const {
  if (!is_context_name(name))
    return mistake("'" + name +
                   "' is no name of a context: letters, digits, '_', '-' and '.', 63 at most");
  if (auto made = make_directory(); !made) return made;
  Json json = {{"hosts", context.hosts}, {"settings", Json::object()}};
  for (const auto& [key, value] : context.settings) json["settings"][key] = value;
  return write_whole(path_of(name),
                     json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<void> ContextStore::remove(const std::string& name) const {
  if (auto there = read(name); !there && there.error().code() == ErrorCode::not_exist)
    return fail(there.error());
  if (!is_context_name(name) || ::unlink(path_of(name).c_str()) != 0)
    return fail(ErrorCode::io_error, "cannot remove " + path_of(name) + ": " + os_error("unlink"));
  if (const auto current = in_use(); current && *current == name) return use("");
  return {};
}

Result<std::vector<std::string>> ContextStore::names() const {
  std::vector<std::string> found;
  std::error_code error;
  if (directory_.empty() || !fs::exists(directory_, error)) return found;
  fs::directory_iterator at(directory_, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".json" && is_context_name(at->path().stem().string()))
      found.push_back(at->path().stem().string());
  }
  if (error) return mistake(directory_ + " cannot be read: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::string> ContextStore::in_use() const {
  const auto path = directory_ + "/current";
  std::error_code ignored;
  if (directory_.empty() || !fs::exists(path, ignored)) return std::string();
  auto text = read_trusted(path);
  if (!text) return fail(text.error().within("which context is in use"));
  while (!text->empty() && std::isspace(static_cast<unsigned char>(text->back())) != 0)
    text->pop_back();
  return *text;
}

Result<void> ContextStore::use(const std::string& name) const {
  const auto path = directory_ + "/current";
  if (name.empty()) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
      return fail(ErrorCode::io_error, "cannot remove " + path + ": " + os_error("unlink"));
    return {};
  }
  if (auto there = read(name); !there) return fail(there.error());
  return write_whole(path, name + "\n");
}

}  // namespace meshbus::cli
