#include "cli/hosts/ping_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <iomanip>
#include <iostream>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "mesh/text.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPingsAtOnce = 64;

struct Pong {
  HostReport host;
  std::chrono::nanoseconds took{0};
};

/// To that host's broker, to its agent, and back; the connection is up when the question leaves.
Pong ping(Context& context, const HostAddr& host, std::chrono::milliseconds limit) {
  Pong pong;
  const auto end = Clock::now() + limit;
  const auto mesh = HostMesh::attach(context, "host", {host}, {.deadline = limit});
  if (!mesh) return {silent_host(host, mesh.error()), {}};
  const auto begin = Clock::now();
  const auto states = mesh->states(std::max(
      std::chrono::ceil<std::chrono::milliseconds>(end - begin), std::chrono::milliseconds(1)));
  pong.took = Clock::now() - begin;
  if (!states) return {silent_host(host, states.error()), {}};
  pong.host = states->front();
  return pong;
}

double ms_of(const Pong& pong) {
  return std::chrono::duration<double, std::milli>(pong.took).count();
}

Json to_json(const Pong& pong) {
  const auto& host = pong.host;
  if (host.code != ErrorCode::none)
    return {{"host", host.host.to_string()},
            {"node", nullptr},
            {"version", nullptr},
            {"ms", nullptr},
            {"error", host.problem}};
  return {{"host", host.host.to_string()},
          {"node", host.node},
          {"version", host.version},
          {"ms", ms_of(pong)},
          {"error", nullptr}};
}

void print(const Pong& pong) {
  const auto& host = pong.host;
  std::cout << host.host << "  ";
  if (host.code != ErrorCode::none) {
    std::cout << text::visible(problem_words(host)) << "\n";
  } else {
    std::cout << std::fixed << std::setprecision(2) << ms_of(pong) << " ms  meshbus "
              << host.version << " on " << host.node << "\n";
  }
}

int ping(const HostChoice& arguments) {
  const auto found = find_hosts(arguments);
  if (const int* code = std::get_if<int>(&found)) return *code;
  if (std::get<FoundHosts>(found).addresses.empty()) return no_host();
  const auto& chosen = std::get<FoundHosts>(found);
  auto context = chosen.make_context();
  if (!context) {
    complain(error_words(context.error()));
    return kUsage;
  }
  const auto limit = arguments.timeout;
  const auto& hosts = chosen.addresses;
  int code = 0;
  Json json = Json::array();
  for (std::size_t begin = 0; begin < hosts.size(); begin += kPingsAtOnce) {
    std::vector<std::future<Pong>> pongs;
    for (std::size_t i = begin; i < std::min(hosts.size(), begin + kPingsAtOnce); ++i)
      pongs.push_back(std::async(std::launch::async, [&context, &host = hosts[i], limit] {
        return ping(*context, host, limit);
      }));
    for (auto& one : pongs) {
      const auto pong = one.get();
      if (pong.host.code != ErrorCode::none) code = 1;
      if (arguments.json) {
        json.push_back(to_json(pong));
      } else {
        print(pong);
      }
    }
  }
  if (arguments.json) std::cout << dump(json, 2) << "\n";
  return code;
}

}  // namespace

void add_ping(CLI::App& app, Commands& commands) {
  const auto choice = std::make_shared<HostChoice>();
  choice->timeout = std::chrono::seconds(5);
  auto& verb = commands.add(app, "ping",
                            {.meaning = "Say whether hosts answer, and how long it takes",
                             .examples = {"ping", "ping --hosts tcp:node[1-4]:7420"},
                             .exit_codes = "0 all answered; 1 one did not, or there is none"},
                            [choice] { return ping(*choice); });
  add_host_choice(verb, *choice);
}

}  // namespace meshbus::cli
