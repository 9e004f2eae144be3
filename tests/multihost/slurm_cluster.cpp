#include "tests/multihost/slurm_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "tests/support/wait.h"

namespace meshbus::test {
namespace {

using namespace std::chrono_literals;

std::string find_why_not() {
  for (const auto& [program, package] :
       {std::pair("slurmctld", "slurmctld"), std::pair("slurmd", "slurmd"),
        std::pair("srun", "slurm-client"), std::pair("munged", "munge"),
        std::pair("mungekey", "munge")}) {
    const auto is_there = [name = std::string(program)](const char* folder) {
      return ::access((folder + name).c_str(), X_OK) == 0;
    };
    if (!is_there("/usr/sbin/") && !is_there("/usr/bin/"))
      return std::string(program) + " is not installed (package " + package + ")";
  }
  return {};
}

}  // namespace

const std::string& SlurmCluster::why_not() {
  static const std::string reason = find_why_not();
  return reason;
}

void SlurmCluster::write_conf() const {
  std::string text =
      "ClusterName=lab\nSlurmctldHost=" + lab_.host(0).name() + "(" + lab_.host(0).address() +
      ")\n" + "SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket=" +
      (dir_ / "sock/munge") + "\nCredType=cred/munge\nStateSaveLocation=" + (dir_ / "state") +
      "\nSlurmdSpoolDir=" + (dir_ / "spool") + "/%n\nSlurmctldPidFile=" + (dir_ / "ctld.pid") +
      "\nSlurmdPidFile=" + (dir_ / "slurmd.%n.pid") + "\nSlurmctldLogFile=" + (dir_ / "ctld.log") +
      "\nSlurmdLogFile=" + (dir_ / "slurmd.%n.log") +
      "\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/"
      "none\n"
      "AccountingStorageType=accounting_storage/none\nSelectType=select/"
      "cons_tres\nSelectTypeParameters=CR_CPU\n"
      "SchedulerType=sched/"
      "backfill\nMpiDefault=none\nReturnToService=2\nSlurmdParameters=config_overrides\n"
      "SlurmdTimeout=10\nSlurmctldTimeout=10\nInactiveLimit=0\nKillWait=5\nMinJobAge="
      "60\nSwitchType=switch/none\n";
  for (std::size_t i = 0; i < lab_.size(); ++i) {
    const auto host = lab_.host(i);
    text += "NodeName=" + host.name() + " NodeAddr=" + host.address() +
            " CPUs=4 RealMemory=1000 State=UNKNOWN\n";
    std::filesystem::create_directories(dir_.path() / "spool" / host.name());
  }
  text += "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
  dir_.write("slurm.conf", text);
}

SlurmCluster::SlurmCluster(const Lab& lab) : lab_(lab) {
  if (!why_not().empty()) throw std::runtime_error(why_not());
  for (const char* folder : {"munge", "sock", "state"})
    std::filesystem::create_directory(dir_.path() / folder);
  // Both demand it: the socket's folder can be entered by all, the key's by nobody else.
  for (const auto& folder : {dir_.path(), dir_.path() / "sock"})
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
  std::filesystem::permissions(dir_.path() / "munge", std::filesystem::perms(0700));
  write_conf();
  const auto made =
      test::run({"/usr/sbin/mungekey", "--create", "--keyfile=" + (dir_ / "munge/key")}, 30s);
  if (made.status != ExitStatus::exited(0)) throw std::runtime_error("mungekey: " + made.err);
  munged_ = std::make_unique<Process>(std::vector<std::string>{
      "/usr/sbin/munged", "--force", "--foreground", "--key-file=" + (dir_ / "munge/key"),
      "--socket=" + (dir_ / "sock/munge"), "--pid-file=" + (dir_ / "munge/pid"),
      "--log-file=" + (dir_ / "munge/log"), "--seed-file=" + (dir_ / "munge/seed")});
  wait_until(
      [this] { return std::filesystem::exists(dir_ / "sock/munge") || !munged_->is_running(); },
      in_time);
  const auto daemon = [this](std::size_t host, const char* program) {
    // A Process cannot be moved.
    daemons_.emplace_back(new Process(lab_.host(host).start(
        {program, "-D", "-f", conf()}, {.environment = {{"SLURM_CONF", conf()}}})));
  };
  daemon(0, "/usr/sbin/slurmctld");
  for (std::size_t i = 0; i < lab_.size(); ++i) daemon(i, "/usr/sbin/slurmd");
  std::string idle;
  const auto are_up = [&] {
    idle = this->run({"sinfo", "-h", "-t", "idle", "-o", "%D"}, in_time).out;
    return idle == std::to_string(lab_.size()) + "\n";
  };
  if (!wait_until(are_up, in_time))
    throw std::runtime_error("slurm: not all nodes are up, but " + idle + log());
}

SlurmCluster::~SlurmCluster() {
  for (auto& daemon : daemons_) daemon->send_signal(SIGTERM);
  daemons_.clear();
  if (munged_) munged_->send_signal(SIGTERM);
  if (munged_) wait_until([this] { return !munged_->is_running(); }, 10s);
}

Process SlurmCluster::start(std::vector<std::string> argv) const {
  return lab_.host(0).start(std::move(argv), {.environment = {{"SLURM_CONF", conf()}}});
}

Finished SlurmCluster::run(std::vector<std::string> argv,
                           std::chrono::milliseconds deadline) const {
  return lab_.host(0).run(std::move(argv), deadline, {.environment = {{"SLURM_CONF", conf()}}});
}

std::string SlurmCluster::log() const {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    if (entry.path().extension() != ".log") continue;
    const auto whole = read_file(entry.path());
    text += "\n" + entry.path().filename().string() + ":\n" +
            whole.substr(whole.size() - std::min<std::size_t>(whole.size(), 2000));
  }
  return text;
}

}  // namespace meshbus::test
