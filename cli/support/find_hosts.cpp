#include "cli/support/find_hosts.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "agent/warden/warden.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "client/src/context/context_core.h"

namespace meshbus::cli {
namespace {

/// Where the host of the systemd unit has its directory (cmake/packages/systemd).
constexpr const char* kServiceFolder = "/run/meshbus";

/// The user whose hosts run as services here, unless that is the caller; empty: none.
std::string service_user() {
  struct stat status{};
  if (::stat(kServiceFolder, &status) != 0 || status.st_uid == ::geteuid()) return {};
  const passwd* const user = ::getpwuid(status.st_uid);
  return user == nullptr ? std::to_string(status.st_uid) : user->pw_name;
}

/// What the host in that directory says that it is known by. One that is just starting has not said
/// so yet.
HostAddr address_of(const std::filesystem::path& directory, const HostAddr& socket) {
  std::ifstream file(directory / kHostAddressFile);
  std::string line;
  std::getline(file, line);
  const auto address = HostAddr::parse(line);
  return address ? *address : socket;
}

}  // namespace

// agent/warden/run_dir.h says where they are.
std::vector<LocalHost> local_hosts() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::vector<std::filesystem::path> roots;
  if (runtime != nullptr && *runtime != '\0')
    roots.emplace_back(std::filesystem::path(runtime) / "meshbus");
  roots.emplace_back("/tmp/meshbus-" + std::to_string(::geteuid()));
  roots.emplace_back(kServiceFolder);
  std::vector<LocalHost> found;
  for (const auto& root : roots) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
      const auto path = entry.path() / "bus";
      struct stat status{};
      if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
          status.st_uid != ::geteuid())
        continue;
      if (auto socket = HostAddr::unix_socket(path.string()))
        found.push_back({address_of(entry.path(), *socket), *socket});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const LocalHost& a, const LocalHost& b) { return a.address < b.address; });
  // XDG_RUNTIME_DIR may be the folder of another root.
  found.erase(
      std::unique(found.begin(), found.end(),
                  [](const LocalHost& a, const LocalHost& b) { return a.socket == b.socket; }),
      found.end());
  return found;
}

Result<Context> FoundHosts::make_context(ContextOptions options) const {
  options.settings = settings;
  auto context = Context::create(std::move(options));
  if (!context) return context;
  for (const auto& host : local) context->core()->ways().set(host.address, {host.socket, {}});
  return context;
}

std::variant<FoundHosts, int> find_hosts(const HostChoice& choice) {
  auto list = choose_hosts(choice.said);
  if (!list) {
    complain(list.error().detail());
    return kUsage;
  }
  FoundHosts found;
  if (!list->words.empty()) {
    auto addresses = parse_hosts(*list);
    if (!addresses) {
      complain(addresses.error().detail());
      return kUsage;
    }
    found.addresses = std::move(*addresses);
    found.source = std::move(list->source);
    found.settings = std::move(list->settings);
    return found;
  }
  found.local = local_hosts();
  for (const auto& host : found.local) found.addresses.push_back(host.address);
  return found;
}

int no_host() {
  const std::string user = service_user();
  complain("no host of yours runs on this machine (" +
           (user.empty()
                ? "those of meshbus run end with their job"
                : "the service's belongs to user " + user + ": sudo -u " + user + " meshbus ...") +
           "); name others with --hosts ADDRESS,...");
  return kFailed;
}

std::vector<FoundHosts> FoundHosts::parts() const {
  const bool is_apart = std::any_of(local.begin(), local.end(), [](const auto& host) {
    return host.address.transport() != Transport::unix_socket;
  });
  if (!is_apart) return {*this};
  std::vector<FoundHosts> parts;
  for (const auto& host : local)
    parts.push_back(
        {.addresses = {host.address}, .source = source, .settings = settings, .local = {host}});
  return parts;
}

Result<HostMesh> attach(Context& context, const FoundHosts& hosts, const HostChoice& choice,
                        Need need) {
  AttachOptions options;
  options.require_all = need == Need::all;
  options.deadline = std::min<std::chrono::milliseconds>(choice.timeout, std::chrono::seconds(5));
  auto mesh = HostMesh::attach(context, "hosts", hosts.addresses, options);
  // After --hosts the user knows where they are named.
  if (!mesh && !hosts.source.empty() && choice.said.list.empty())
    return fail(mesh.error().within(hosts.source));
  return mesh;
}

HostReport silent_host(const HostAddr& host, const Error& error) {
  HostReport report;
  report.host = host;
  report.code = error.code();
  // Which host it is, is said beside it.
  const auto who = "host 0 (" + host.to_string() + "): ";
  const auto at = error.detail().find(who);
  report.problem = error.detail().substr(at == std::string::npos ? 0 : at + who.size());
  return report;
}

bool is_silence(ErrorCode code) {
  return code != ErrorCode::none && code != ErrorCode::unauthorised &&
         code != ErrorCode::identity_mismatch && code != ErrorCode::version_mismatch &&
         code != ErrorCode::configuration_error;
}

std::string problem_words(const HostReport& host) {
  return (is_silence(host.code) ? "does not answer: " : "") + host.problem;
}

std::variant<AttachedHosts, int> attach_hosts(const HostChoice& choice, Need need) {
  const auto begin = std::chrono::steady_clock::now();
  auto found = find_hosts(choice);
  if (const int* code = std::get_if<int>(&found)) return *code;
  if (std::get<FoundHosts>(found).addresses.empty()) return no_host();
  const auto parts = std::get<FoundHosts>(found).parts();
  if (parts.size() > 1) {
    std::string hosts;
    for (const auto& part : parts)
      hosts += (hosts.empty() ? "" : ", ") + part.addresses.front().to_string();
    complain(
        "hosts of yours on this machine that are known by tcp may not reach the others: say with "
        "--hosts which are meant: " +
        hosts);
    return kUsage;
  }
  auto context = parts.front().make_context();
  if (!context) {
    complain(error_words(context.error()));
    return kUsage;
  }
  auto mesh = attach(*context, parts.front(), choice, need);
  if (!mesh) {
    complain(error_words(mesh.error()));
    return 1;
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  return AttachedHosts{std::move(*context), std::move(*mesh),
                       std::chrono::ceil<std::chrono::milliseconds>(took), parts.front().settings};
}

}  // namespace meshbus::cli
