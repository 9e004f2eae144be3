#include "tests/bench/middle.h"

#include <fstream>
#include <stdexcept>

#include "common/security/keys.h"
#include "meshbus/address.h"
#include "tests/bench/program.h"

namespace meshbus::bench {

namespace {

/// What nats-server says.
constexpr const char* kNatsClients = "client connections on 127.0.0.1:";
constexpr const char* kNatsRoutes = "route connections on 127.0.0.1:";
constexpr const char* kNatsReady = "Server is ready";

}  // namespace

Middle::Middle(Between between) {
  switch (between) {
    case Between::relay: start_relay(false); break;
    case Between::relay_tcp: start_relay(true); break;
    case Between::two_relays: start_two_relays(false); break;
    case Between::two_relays_curve: start_two_relays(true); break;
    case Between::broker: start_brokers(1, BrokerLink::tcp); break;
    case Between::broker_tcp: start_broker_tcp(); break;
    case Between::two_brokers: start_brokers(2, BrokerLink::tcp); break;
    case Between::two_brokers_curve: start_brokers(2, BrokerLink::tcp_with_keys); break;
    case Between::two_kept: start_two_of_ours(true); break;
    case Between::two_unkept: start_two_of_ours(false); break;
    case Between::nats: start_nats(); break;
    case Between::two_nats: start_two_nats(); break;
  }
}

Child& Middle::start(std::vector<std::string> argv) {
  return *processes_.emplace_back(std::make_unique<Child>(std::move(argv)));
}

std::chrono::nanoseconds Middle::cpu() const {
  std::chrono::nanoseconds sum{0};
  for (const auto& one : processes_) sum += one->cpu();
  if (brokers_) sum += brokers_->cpu();
  return sum;
}

std::size_t Middle::resident_kib() const {
  std::vector<pid_t> pids;
  for (const auto& one : processes_) pids.push_back(one->pid());
  for (std::size_t i = 0; brokers_ && i < brokers_->count(); ++i) pids.push_back(brokers_->pid(i));
  std::size_t sum = 0;
  for (const pid_t pid : pids) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string word; status >> word;) {
      if (word != "VmRSS:") continue;
      std::size_t kib = 0;
      status >> kib;
      sum += kib;
    }
  }
  return sum;
}

void Middle::start_relay(bool is_tcp) {
  const std::string address = is_tcp ? "tcp://127.0.0.1:*" : "ipc://" + folder_.path() + "/relay";
  // It prints where it listens.
  asker_ = other_ = start({own_folder() + "meshbus-floor-relay", address}).read_line();
}

void Middle::start_two_relays(bool has_keys) {
  const std::string program = own_folder() + "meshbus-floor-relay";
  asker_ = "ipc://" + folder_.path() + "/relay";
  other_ = asker_ + "2";
  std::vector<std::string> keys;
  if (has_keys) {
    const auto pair = KeyPair::make();
    if (!pair) throw std::runtime_error(pair.error().detail());
    // The key is for this measurement alone, so it may be on a command line.
    keys = {"--keys", pair->public_key, pair->secret_key};
  }
  const auto with_keys = [&](std::vector<std::string> argv, const std::vector<std::string>& rest) {
    argv.insert(argv.end(), keys.begin(), keys.end());
    argv.insert(argv.end(), rest.begin(), rest.end());
    return argv;
  };
  // It prints where it listens.
  const std::string link = start(with_keys({program, other_}, {"tcp://127.0.0.1:*"})).read_line();
  start(with_keys({program, asker_}, {"--link", link})).read_line();
}

void Middle::start_brokers(std::size_t count, BrokerLink link) {
  brokers_.emplace(count, link);
  asker_ = brokers_->endpoint(0);
  other_ = brokers_->endpoint(count - 1);
}

void Middle::start_broker_tcp() {
  const std::string ready =
      start({own_folder() + "meshbus-broker", "--bind", "tcp:127.0.0.1:0", "--insecure"})
          .read_line();
  const auto address = HostAddr::parse(ready.substr(ready.find(' ') + 1));
  if (!address) throw std::runtime_error(address.error().detail());
  asker_ = other_ = address->zmq_endpoint();
}

void Middle::start_two_of_ours(bool is_keeping) {
  for (std::string* endpoint : {&asker_, &other_}) {
    const std::string path = folder_.path() + (endpoint == &asker_ ? "/broker" : "/broker2");
    std::vector<std::string> argv = {own_folder() + "meshbus-bench", "broker", path};
    if (!is_keeping) argv.emplace_back("forget");
    start(std::move(argv)).read_line();
    *endpoint = "ipc://" + path;
  }
}

Middle::NatsPorts Middle::start_nats_server(const std::string& flags,
                                            std::vector<std::string> words) {
  const auto server = find_in_path("nats-server");
  if (!server) throw std::runtime_error("nats-server is not installed");
  // It says on stderr which ports it chose.
  Child& nats =
      start({"/bin/sh", "-c", "exec \"$0\" -a 127.0.0.1 -p -1 " + flags + " 2>&1", *server});
  NatsPorts ports;
  while (!words.empty()) {
    const std::string line = nats.read_line();
    const auto read_port = [&line](const std::string& before, std::string& port) {
      if (const auto at = line.find(before); at != std::string::npos)
        port = line.substr(at + before.size());
    };
    read_port(kNatsClients, ports.clients);
    read_port(kNatsRoutes, ports.routes);
    std::erase_if(words, [&](const auto& word) { return line.find(word) != std::string::npos; });
  }
  return ports;
}

void Middle::start_nats() {
  asker_ = other_ = start_nats_server("", {kNatsClients, kNatsReady}).clients;
}

void Middle::start_two_nats() {
  const std::string cluster = "--cluster_name bench --cluster nats://127.0.0.1:-1";
  const auto first = start_nats_server(cluster, {kNatsClients, kNatsRoutes, kNatsReady});
  const auto second = start_nats_server(cluster + " --routes nats://127.0.0.1:" + first.routes,
                                        {kNatsClients, kNatsReady, "Route connection created"});
  asker_ = first.clients;
  other_ = second.clients;
}

}  // namespace meshbus::bench
