#include "cli/doctor/gather_facts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/os/cgroup_placement.h"
#include "agent/warden/run_dir.h"
#include "cli/doctor/login_session.h"
#include "cli/doctor/task_facts.h"
#include "common/base/machine_name.h"
#include "common/base/os_error.h"
#include "common/config/config.h"
#include "common/security/keys.h"

namespace meshbus::cli::doctor {
namespace {

namespace fs = std::filesystem;

/// Longer than a resolver needs that has a server; glibc itself waits 10 s for one that is gone.
constexpr std::chrono::seconds kLookUpLimit{3};

SoftHard limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return {};
  const auto number = [](rlim_t one) { return one == RLIM_INFINITY ? kUnlimited : one; };
  return {number(limit.rlim_cur), number(limit.rlim_max)};
}

/// When the folder is not there, the first one above it that is counts.
StorageFacts storage_at(const char* use, const std::string& path) {
  StorageFacts facts{.use = use, .path = path};
  fs::path folder = path;
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  struct statvfs space{};
  struct stat status{};
  if (::statvfs(folder.c_str(), &space) != 0 || ::stat(folder.c_str(), &status) != 0) {
    facts.problem = os_error("statvfs");
    return facts;
  }
  // The blocks that only root may use do not count.
  facts.free_bytes = std::uint64_t{space.f_bavail} * std::uint64_t{space.f_frsize};
  facts.size_bytes = std::uint64_t{space.f_blocks} * std::uint64_t{space.f_frsize};
  if (space.f_files > 0) facts.free_files = space.f_favail;
  facts.device = status.st_dev;
  if ((space.f_flag & ST_RDONLY) != 0) {
    facts.problem = "it is mounted read-only";
  } else if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    facts.problem = os_error("not writable");
  }
  return facts;
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder != '/' ? "/tmp" : folder;
}

NameFacts look_up(const std::string& name) {
  NameFacts facts{.name = name};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &list); error != 0) {
    facts.problem = ::gai_strerror(error);
    return facts;
  }
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    std::array<char, 64> text{};
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0 &&
        std::find(facts.addresses.begin(), facts.addresses.end(), text.data()) ==
            facts.addresses.end())
      facts.addresses.emplace_back(text.data());
  }
  ::freeaddrinfo(list);
  return facts;
}

/// Nothing interrupts a look-up: a thread of its own does it, which is left behind when it takes
/// too long.
NameFacts gather_name() {
  const std::string name = machine_name();
  auto promise = std::make_shared<std::promise<NameFacts>>();
  auto found = promise->get_future();
  std::thread([promise, name] { promise->set_value(look_up(name)); }).detach();
  if (found.wait_for(kLookUpLimit) == std::future_status::ready) return found.get();
  return {.name = name,
          .addresses = {},
          .problem = "no answer within " + std::to_string(kLookUpLimit.count()) + " s"};
}

bool is_clock_synchronised() {
  timex clock{};
  return ::adjtimex(&clock) != TIME_ERROR;
}

void add_secret_key(const std::string& path, std::vector<KeyFacts>& keys) {
  const auto pair = read_key_pair(path);
  keys.push_back({.path = path, .problem = pair ? std::string() : pair.error().detail()});
}

/// The files of a folder with that ending, in order. `error`: why the folder cannot be read.
std::vector<std::string> files_in(const std::string& folder, std::string_view ending,
                                  std::error_code& error) {
  std::vector<std::string> paths;
  error.clear();
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ending) paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void add_public_key(const std::string& path, std::vector<KeyFacts>& keys) {
  KeyFacts facts{.path = path};
  const auto grants = read_key_grants(path);
  if (!grants) {
    facts.problem = grants.error().detail();
  } else if (std::all_of(grants->begin(), grants->end(),
                         [](const KeyGrant& grant) { return grant.expires.has_value(); })) {
    // The holder is admitted by any of its keys.
    for (const auto& grant : *grants)
      facts.expires = std::max(facts.expires.value_or(*grant.expires), *grant.expires);
  }
  keys.push_back(std::move(facts));
}

void add_public_keys(const std::string& folder, std::vector<KeyFacts>& keys) {
  if (const auto trusted = check_trusted(folder);
      !trusted && trusted.error().code() != ErrorCode::not_exist) {
    keys.push_back(
        {.path = folder, .problem = trusted.error().detail() + "; new keys there let nobody in"});
    return;
  }
  std::error_code error;
  for (const auto& path : files_in(folder, ".pub", error)) add_public_key(path, keys);
  if (error && error != std::errc::no_such_file_or_directory)
    keys.push_back({.path = folder,
                    .problem = folder + ": " + error.message() +
                               ", so its keys let nobody in: chmod a+rx " + folder});
}

void gather_keys(HostFacts& facts) {
  const auto config = load_config({});
  if (!config) {
    facts.keys.push_back({.path = {}, .problem = config.error().detail()});
    return;
  }
  const auto directory = KeyDirectory::find(*config);
  std::error_code error;
  if (!directory || !fs::is_directory(directory->path(), error)) return;
  facts.keys_directory = directory->path();
  // A secret is only ours to judge when we may read it; a container has those of others beside it.
  auto secrets = files_in(directory->path(), ".key", error);
  if (const auto& own = config->path(keys::keys_own); !own.empty()) secrets = {own};
  for (const auto& path : secrets) {
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid())
      add_secret_key(path, facts.keys);
  }
  for (const auto role : kKeyRoles)
    add_public_keys(directory->path() + "/authorised/" + std::string(word_of(role)), facts.keys);
}

/// Where the hosts of this user have their sockets.
std::string run_directory_of(const std::optional<HostAddr>& host) {
  const auto own = fs::path(host ? host->path() : std::string_view()).parent_path();
  if (own.filename().string().starts_with("host-")) return own.parent_path().string();
  // A host with a tcp address: RUN/host-ID/progress/FILE is where it lets its procs write.
  if (const char* const progress = host ? std::getenv("MESHBUS_PROGRESS") : nullptr) {
    const auto folder = fs::path(progress).parent_path().parent_path();
    if (folder.filename().string().starts_with("host-")) return folder.parent_path().string();
  }
  return warden::default_base_dir();
}

}  // namespace

HostFacts gather_facts(const std::optional<HostAddr>& host) {
  const auto run_directory = run_directory_of(host);
  std::error_code error;
  HostFacts facts;
  facts.version = MESHBUS_VERSION;
  facts.is_root = ::geteuid() == 0;
  facts.descriptors = limit_of(RLIMIT_NOFILE);
  facts.locked_memory = limit_of(RLIMIT_MEMLOCK);
  const fs::directory_iterator devices("/sys/class/infiniband", error);
  facts.has_infiniband = !error && devices != fs::directory_iterator();
  facts.tasks = gather_tasks();
  facts.storage = {storage_at(kRunDirectory, run_directory),
                   storage_at(kTemporaryFiles, temporary_folder()),
                   storage_at(kSharedMemory, "/dev/shm")};
  if (const auto problem = warden::base_dir_problem(run_directory); !problem.empty())
    facts.storage.front().problem = problem;
  facts.name = gather_name();
  facts.is_clock_synchronised = is_clock_synchronised();
  facts.cgroup_problem = os::plan_cgroup_placement().problem;
  facts.has_systemd = fs::is_directory("/run/systemd/system", error);
  facts.session = gather_session(run_directory);
  gather_keys(facts);
  facts.leftovers = warden::find_stale_hosts(run_directory);
  return facts;
}

}  // namespace meshbus::cli::doctor
