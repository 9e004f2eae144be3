#include "cli/doctor/judge_host.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cli/support/usage_text.h"
#include "common/base/quantity.h"
#include "common/security/key_grant.h"

namespace meshbus::cli::doctor {
namespace {

/// Hard limit of open files below which a host is refused: its broker keeps a quarter of them free
/// and needs two for each peer.
constexpr std::uint64_t kFewDescriptors = 512;
/// The hard limit that Linux itself sets (INR_OPEN_MAX). A host that has less takes fewer than
/// 1000 procs: the agent keeps 1024 for itself and needs three for each.
constexpr std::uint64_t kUsualDescriptors = 4096;
/// The soft limit that Linux itself sets (INR_OPEN_CUR), which programs rely on.
constexpr std::uint64_t kUsualSoftDescriptors = 1024;
/// The four roles of a host and a shell command with its pipes.
constexpr std::uint64_t kFewTasks = 32;
/// One rank for each of 64 CPUs, with the 4 threads that a proc of this library has.
constexpr std::uint64_t kUsualTasks = 256;
/// A host that cannot write this much cannot record a spawn.
constexpr std::uint64_t kFullDisk = std::uint64_t{1} << 20;
/// The defaults of events.size (8 MiB) and audit.size (16 MiB), and as much again for what ranks
/// write before a launcher reads it.
constexpr std::uint64_t kUsualDisk = std::uint64_t{48} << 20;
/// Half of what Docker gives a container (64 MiB); MPI libraries map some MiB for each rank.
constexpr std::uint64_t kUsualSharedMemory = std::uint64_t{32} << 20;
constexpr std::uint64_t kFewFiles = 1000;
constexpr std::int64_t kDay = 86'400;
/// A week is what an operator needs to hand new keys out.
constexpr std::int64_t kExpiresSoon = 7 * kDay;

std::string count_text(std::uint64_t count) {
  return count == kUnlimited ? "unlimited" : std::to_string(count);
}

/// The findings of one host, as they come.
class HostJudge {
 public:
  HostJudge(const HostExam& host, std::int64_t now) : host_(host), now_(now) {}

  void look_at_answer() {
    if (host_.code == ErrorCode::unauthorised || host_.code == ErrorCode::identity_mismatch) {
      add(Severity::error, "wrong_key",
          "refuses our key, or has another key than we know: " + host_.problem,
          "copy the .pub files of both sides to authorised/ (meshbus keygen makes them)");
    } else if (host_.code == ErrorCode::configuration_error) {
      add(Severity::error, "key", host_.problem, "copy the key, or make it with meshbus keygen");
    } else if (host_.code == ErrorCode::version_mismatch) {
      add(Severity::error, "version", host_.problem, "install the same release on all hosts");
    } else if (host_.code != ErrorCode::none) {
      add(Severity::error, "no_answer", "does not answer: " + host_.problem,
          "look whether meshbus host runs there, and whether the network lets its port through");
    }
  }

  void look_at_host() {
    for (const auto& drain : host_.drains)
      add(drain.is_held ? Severity::error : Severity::warning, "held",
          "it is drained of " + drain.scope + ", and starts none meanwhile: " + drain.reason,
          drain.is_held ? "meshbus drain --resume ends that" : "wait until its procs have ended");
    if (host_.broker_restarts > 0)
      add(Severity::warning, "restarts",
          "its broker was restarted " + std::to_string(host_.broker_restarts) +
              (host_.broker_restarts == 1 ? " time" : " times"),
          "look for the reason in its log and with meshbus why");
    for (const auto& upgrade : host_.upgrades)
      add(Severity::warning, "upgrade", upgrade,
          "start the host again when it is idle: its warden and its keeper stay at their release "
          "until then; meshbus upgrade replaces the rest");
    if (host_.facts_code == ErrorCode::unauthorised)
      add(Severity::warning, "not_examined",
          "it lets us look, and start no probe: " + host_.facts_problem,
          "use the key of an operator (keys.own)");
    else if (!host_.facts_problem.empty())
      add(Severity::error, "not_examined", "cannot be examined from inside: " + host_.facts_problem,
          "look with meshbus ps --all and meshbus why doctor on it");
  }

  void look_at_facts(const HostFacts& facts, bool is_alone) {
    look_at_descriptors(facts.descriptors);
    look_at_tasks(facts);
    look_at_locked_memory(facts);
    look_at_storage(facts.storage);
    if (!is_alone) look_at_name(facts.name);
    look_at_containment(facts);
    // What is started from a terminal here ends with its session anyway.
    if (host_.host != kThisMachine) look_at_session(facts.session);
    look_at_keys(facts);
    if (!facts.leftovers.empty())
      add(Severity::warning, "leftovers",
          "a host was killed as a whole and its run directory is left: " + facts.leftovers.front() +
              (facts.leftovers.size() == 1
                   ? std::string()
                   : " and " + std::to_string(facts.leftovers.size() - 1) + " more"),
          "start meshbus host there once: it ends what is left and removes it");
  }

  std::vector<Finding> take() { return std::move(findings_); }

 private:
  void add(Severity severity, std::string code, std::string text, std::string remedy) {
    findings_.push_back(
        {severity, std::move(code), {host_.host}, std::move(text), std::move(remedy)});
  }

  void look_at_descriptors(const SoftHard& limit) {
    const std::string remedy =
        "raise it for the host: LimitNOFILE=65536 in its unit, or nofile in "
        "/etc/security/limits.conf";
    if (limit.hard < kFewDescriptors) {
      add(Severity::error, "descriptors",
          "a process may open " + count_text(limit.hard) + " files, a host needs " +
              count_text(kFewDescriptors),
          remedy);
    } else if (limit.hard < kUsualDescriptors) {
      add(Severity::warning, "descriptors",
          "a process may open " + count_text(limit.hard) +
              " files, which bounds the procs of a host",
          remedy);
    } else if (limit.soft < kUsualSoftDescriptors) {
      add(Severity::warning, "descriptors",
          "ranks may open " + count_text(limit.soft) + " files, fewer than is usual (" +
              count_text(kUsualSoftDescriptors) + ")",
          "raise it: ulimit -n before meshbus host, or run --rlimit nofile=" +
              count_text(kUsualSoftDescriptors));
    }
  }

  void look_at_tasks(const HostFacts& facts) {
    if (!facts.tasks || facts.tasks->limit == kUnlimited) return;
    const auto& tasks = *facts.tasks;
    const std::uint64_t left = tasks.limit - std::min(tasks.limit, tasks.used);
    if (left >= kUsualTasks) return;
    add(left < kFewTasks ? Severity::error : Severity::warning, "processes",
        std::to_string(left) + " more processes and threads can be made (" +
            std::to_string(tasks.used) + " of " + std::to_string(tasks.limit) + ", by " +
            tasks.source + ")",
        tasks.source.starts_with("/") ? "raise TasksMax= of that unit, or end what is not needed"
                                      : "raise nproc in /etc/security/limits.conf, or LimitNPROC=");
  }

  /// Only devices for RDMA pin memory by the gigabyte.
  void look_at_locked_memory(const HostFacts& facts) {
    if (!facts.has_infiniband || facts.locked_memory.soft == kUnlimited) return;
    add(Severity::warning, "locked_memory",
        "it has InfiniBand, and a process may lock only " + memory_text(facts.locked_memory.soft),
        "LimitMEMLOCK=infinity in the unit of the host, or memlock in /etc/security/limits.conf");
  }

  void look_at_storage(const std::vector<StorageFacts>& storage) {
    std::vector<std::uint64_t> seen;
    for (const auto& one : storage) {
      const bool is_known = std::find(seen.begin(), seen.end(), one.device) != seen.end();
      if (!one.problem.empty()) {
        add(Severity::error, "disk", "the " + one.use + " " + one.path + ": " + one.problem,
            one.use == kRunDirectory ? "correct it, or set XDG_RUNTIME_DIR to another folder"
                                     : "make it writable for the user of the host");
        continue;
      }
      if (is_known) continue;
      seen.push_back(one.device);
      look_at_space(one);
    }
  }

  void look_at_space(const StorageFacts& one) {
    const std::string where = "the " + one.use + " (" + one.path + ")";
    const bool is_shared_memory = one.use == kSharedMemory;
    const std::string remedy =
        is_shared_memory
            ? "make it larger (docker run --shm-size), or "
              "remove what ended programs left in it"
            : "make room there, or use another one (" +
                  std::string(one.use == kRunDirectory ? "XDG_RUNTIME_DIR" : "TMPDIR") + ")";
    if (one.free_bytes < (is_shared_memory ? kUsualSharedMemory : kUsualDisk)) {
      const bool is_full = one.free_bytes < kFullDisk;
      add(is_full && !is_shared_memory ? Severity::error : Severity::warning, "disk",
          where + (is_full ? " is full: " : " is nearly full: ") + memory_text(one.free_bytes) +
              " of " + memory_text(one.size_bytes) + " are free",
          remedy);
    } else if (one.free_files && *one.free_files < kFewFiles) {
      add(Severity::warning, "disk",
          where + " has room for " + std::to_string(*one.free_files) + " more files (inodes)",
          remedy);
    }
  }

  void look_at_name(const NameFacts& name) {
    if (!name.problem.empty()) {
      add(Severity::warning, "name",
          "its own name " + name.name + " does not resolve there: " + name.problem,
          "write it into /etc/hosts: MPI and torch programs look their own machine up");
      return;
    }
    const bool is_loopback =
        !name.addresses.empty() &&
        std::all_of(name.addresses.begin(), name.addresses.end(), [](const std::string& address) {
          return address.starts_with("127.") || address == "::1";
        });
    if (is_loopback)
      add(Severity::warning, "name",
          "its own name " + name.name + " resolves to " + name.addresses.front() +
              " there, where no other host reaches it",
          "give it its address in /etc/hosts: MPI and gloo tell others where they are by it");
  }

  /// In a container nobody can do anything about it.
  void look_at_containment(const HostFacts& facts) {
    if (host_.containment != "sweep" || !facts.has_systemd) return;
    add(Severity::warning, "containment",
        "it finds the descendants of procs by the process table alone, and limits none" +
            (facts.cgroup_problem.empty() ? std::string() : ": " + facts.cgroup_problem),
        "start it where it has a cgroup of its own: systemd-run --user -p Delegate=yes meshbus "
        "host");
  }

  void look_at_session(const SessionFacts& session) {
    if (session.scope.empty()) return;
    if (session.is_killed_at_logout) {
      add(Severity::warning, "session",
          "it is part of the login session " + session.scope +
              " and is killed at logout (KillUserProcesses=yes)",
          "loginctl enable-linger, then systemd-run --user -p Delegate=yes meshbus host");
    } else if (session.is_run_dir_removed) {
      add(Severity::warning, "session",
          "its run directory goes with the last login session of its user",
          "loginctl enable-linger");
    }
  }

  void look_at_keys(const HostFacts& facts) {
    for (const auto& key : facts.keys) {
      if (!key.problem.empty()) {
        add(Severity::error, "key", key.problem, "see docs/guide/security.md");
      } else if (key.expires && *key.expires <= now_) {
        add(Severity::warning, "key",
            key.path + " has expired on " + rfc3339_text(*key.expires) + " and opens nothing",
            "remove it, or meshbus keygen --rotate");
      } else if (key.expires && *key.expires <= now_ + kExpiresSoon) {
        add(Severity::warning, "key", key.path + " expires on " + rfc3339_text(*key.expires),
            "meshbus keygen --rotate, and copy the new .pub to all hosts");
      }
    }
  }

  const HostExam& host_;
  std::int64_t now_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> judge_host(const HostExam& host, std::int64_t now, bool is_alone) {
  HostJudge judge(host, now);
  judge.look_at_answer();
  if (host.code == ErrorCode::none) judge.look_at_host();
  if (host.facts) judge.look_at_facts(*host.facts, is_alone);
  return judge.take();
}

}  // namespace meshbus::cli::doctor
