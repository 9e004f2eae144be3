#include "tests/support/ssh_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "common/base/unique_fd.h"
#include "tests/support/process_table.h"

namespace meshbus::test {
namespace {

using namespace std::chrono_literals;

// sshd demands it where root runs it, whenever somebody connects. It stays: other test programs run
// an sshd at the same time.
constexpr const char* kPrivilegeDirectory = "/run/sshd";

std::string find_program(const char* name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"}) {
    if (const std::string path = std::string(folder) + name; ::access(path.c_str(), X_OK) == 0)
      return path;
  }
  return {};
}

std::string find_why_not() {
  for (const char* name : {"sshd", "ssh", "ssh-keygen"}) {
    if (find_program(name).empty())
      return std::string(name) + " is not installed (openssh-server, openssh-client)";
  }
  if (::geteuid() == 0 && ::getpwnam("sshd") == nullptr)
    return "there is no user sshd, whom sshd needs when root runs it";
  const passwd* const user = ::getpwuid(::geteuid());
  return user == nullptr ? "this user has no name" : "";
}

/// One that is free just now.
std::uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw std::runtime_error("no free port");
  return ntohs(own.sin_port);
}

void make_key(const std::string& file) {
  const auto made = run(
      {find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file}, 30s);
  if (made.status != ExitStatus::exited(0)) throw std::runtime_error("ssh-keygen: " + made.err);
}

}  // namespace

const std::string& SshServer::why_not() {
  static const std::string reason = find_why_not();
  return reason;
}

SshServer::SshServer(const std::vector<std::pair<std::string, std::string>>& environment) {
  if (!why_not().empty()) throw std::runtime_error(why_not());
  for (const char* name : {"host_key", "user_key", "strange_key"}) make_key(dir_ / name);
  dir_.write("authorized_keys", read_file(dir_ / "user_key.pub"));
  if (::geteuid() == 0) ::mkdir(kPrivilegeDirectory, 0755);
  std::string set;
  for (const auto& [name, value] : environment) set += " \"" + name + "=" + value + "\"";
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = free_port();
    const auto config = dir_.write(
        "sshd_config",
        "Port " + std::to_string(port_) + "\nListenAddress 127.0.0.1\nHostKey " +
            (dir_ / "host_key") + "\nAuthorizedKeysFile " + (dir_ / "authorized_keys") +
            "\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nPrintMotd no\n"
            "ForceCommand echo \"Welcome to this machine\"; eval \"$SSH_ORIGINAL_COMMAND\"\n" +
            (set.empty() ? "" : "SetEnv" + set + "\n"));
    if (start(config)) break;
    if (attempt == 4) throw std::runtime_error("sshd does not start: " + process_->describe());
  }
  const auto known = [&](const std::string& key) {
    return "[127.0.0.1]:" + std::to_string(port_) + " " + read_file(dir_ / (key + ".pub"));
  };
  dir_.write("known_hosts", known("host_key"));
  dir_.write("other_hosts", known("strange_key"));
  // The first value of each option counts, but of keys all are tried.
  const auto ssh_config = dir_.write(
      "ssh_config", "Host stranger\n  IdentityFile " + (dir_ / "strange_key") +
                        "\nHost * !stranger\n  IdentityFile " + (dir_ / "user_key") +
                        "\nHost unknown\n  UserKnownHostsFile " + (dir_ / "other_hosts") +
                        "\nHost nowhere\n  HostName no-such-host.invalid\nHost deaf\n  Port "
                        "1\nHost *\n  HostName 127.0.0.1\n  Port " +
                        std::to_string(port_) + "\n  IdentitiesOnly yes\n  UserKnownHostsFile " +
                        (dir_ / "known_hosts") +
                        "\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n");
  std::filesystem::create_directory(dir_ / "bin");
  // ssh finds its configuration by the user's entry in the password file, not by HOME.
  dir_.write("bin/ssh",
             "#!/bin/sh\nexec " + find_program("ssh") + " -F " + ssh_config + " \"$@\"\n",
             /*executable=*/true);
}

bool SshServer::start(const std::string& config) {
  process_ = std::make_unique<Process>(
      std::vector<std::string>{find_program("sshd"), "-D", "-e", "-f", config});
  wait_until(
      [&] {
        return !process_->is_running() ||
               process_->err().find("Server listening on") != std::string::npos;
      },
      30s);
  return process_->is_running() && process_->err().find("Server listening on") != std::string::npos;
}

std::string SshServer::path() const {
  const char* path = std::getenv("PATH");
  return (dir_ / "bin") + ":" + (path == nullptr ? "/usr/bin:/bin" : path);
}

std::vector<pid_t> SshServer::sessions() const {
  std::vector<pid_t> pids;
  for (const auto& child : children_of(process_->pid())) {
    if (!child.is_dead()) pids.push_back(child.pid);
  }
  return pids;
}

}  // namespace meshbus::test
