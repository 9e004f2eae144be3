#include "client/controller/http/page_acts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "client/src/base/wire_reports.h"
#include "client/src/stacks/stack_tree.h"
#include "common/wire/control.h"
#include "wire/lifecycle_generated.h"
#include "wire/stacks_generated.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostActs = 16;
constexpr auto kActLimit = 5s;
/// A thousand ranks take a second or two.
constexpr auto kLookLimit = 20s;

bool is_meant(const RankSet& ranks, std::uint64_t rank) {
  return ranks.empty() || std::ranges::any_of(ranks, [rank](const RankBlock& block) {
           return block.begin <= rank && rank < block.end;
         });
}

std::string counted(const RankSet& ranks) {
  const bool is_one = ranks.size() == 1 && ranks.front().size() == 1;
  return (is_one ? "rank " : "ranks ") + to_string(ranks);
}

/// Why an order to a host was not confirmed.
std::string order_words(const Error& error) {
  const bool may_follow =
      error.code() == ErrorCode::timeout || error.code() == ErrorCode::fate_unknown;
  return error.to_string() + (may_follow ? "; it may have done it, or do it later" : "");
}

/// Whether an order of that kind means the rank as it is now.
bool is_to_be_told(PageOrder::Verb verb, const RankReport& rank) {
  return !rank.is_terminal() || (verb == PageOrder::Verb::stop && rank.is_restarting);
}

}  // namespace

/// One order while its hosts are asked.
struct PageActs::Act {
  PageOrder order;
  Done done;
  std::shared_ptr<std::size_t> open;
  Reactor::Time begin;
  std::size_t waiting = 0;
  std::vector<std::uint64_t> ranks = {};  ///< Those whose hosts did as they were asked.
  std::vector<std::string> not_done = {};
  StackTree tree = {};

  void fail(const HostAddr& host, const RankSet& meant, const std::string& why) {
    not_done.push_back(counted(meant) + " on host " + host.to_string() + ": " + why);
  }
  void succeed(const RankSet& told) {
    for (const auto& block : told) {
      for (auto rank = block.begin; rank < block.end; ++rank) ranks.push_back(rank);
    }
  }
  void finish(Reactor::Time now) {
    --*open;
    std::ranges::sort(ranks);
    Json json{{"mesh", order.mesh}, {"ranks", to_string(to_rank_set(ranks))}};
    json["not_done"] = not_done;
    if (order.verb == PageOrder::Verb::stacks) {
      json["took_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin).count();
      json.update(tree.json());
    }
    done({.status = not_done.empty() ? 200 : 502,
          .text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"});
  }
};

void PageActs::act(PageOrder order, Done done) {
  if (*open_ >= kMostActs) return done({503, "too many requests are open already"});
  const auto view = site_.table().view(0, std::chrono::system_clock::now());
  const auto mesh = std::ranges::find(view.meshes, order.mesh, &SiteMesh::name);
  if (mesh == view.meshes.end()) return done({404, "this site has no such mesh"});
  const auto size = mesh->region.num_ranks();
  if (!order.ranks.empty() && order.ranks.back().end > size)
    return done({404, "the mesh has " + std::to_string(size) + " ranks"});

  std::map<HostAddr, std::vector<std::uint64_t>> by_host;
  for (const auto& rank : mesh->ranks) {
    if (is_meant(order.ranks, rank->report.rank) && is_to_be_told(order.verb, rank->report))
      by_host[rank->report.host].push_back(rank->report.rank);
  }
  const auto act = std::make_shared<Act>(Act{
      .order = std::move(order), .done = std::move(done), .open = open_, .begin = reactor_.now()});
  for (const auto& host : mesh->hosts) {
    const auto known = std::ranges::find(view.hosts, host, &SiteHost::host);
    if (known == view.hosts.end()) {
      act->not_done.push_back("host " + host.to_string() + " is not watched here");
    } else if (known->state != SiteHostState::up && by_host.contains(host)) {
      act->fail(host, to_rank_set(by_host[host]), "it does not answer: " + known->problem);
      by_host.erase(host);
    }
  }
  if (by_host.empty() && act->not_done.empty())
    return act->done({409, "none of these ranks is alive"});
  ++*open_;
  act->waiting = by_host.size();
  if (by_host.empty()) return act->finish(reactor_.now());
  for (const auto& [host, ranks] : by_host) ask(act, host, to_rank_set(ranks));
}

void PageActs::ask(const std::shared_ptr<Act>& act, const HostAddr& host, const RankSet& ranks) {
  switch (act->order.verb) {
    case PageOrder::Verb::stop: return ask_stop(act, host, ranks);
    case PageOrder::Verb::signal: return ask_signal(act, host, ranks);
    case PageOrder::Verb::stacks: return ask_stacks(act, host, ranks);
  }
}

void PageActs::ask_stop(const std::shared_ptr<Act>& act, const HostAddr& host,
                        const RankSet& ranks) {
  const auto& order = act->order;
  wire::StopProcsT stop;
  stop.mesh = order.mesh;
  // All, when all are meant: also one that starts in this moment.
  stop.ranks = to_wire(order.ranks.empty() ? RankSet() : ranks);
  stop.reason = order.reason.empty() ? "stopped on the page" : order.reason;
  stop.requester = options_.requester;
  stop.grace_ms = static_cast<std::uint32_t>(order.grace.value_or(options_.grace).count());
  site_.request(host, std::move(stop), kActLimit,
                [this, act, host, ranks](const Result<ControlMessage>& answer) {
                  answer ? act->succeed(ranks)
                         : act->fail(host, ranks, order_words(answer.error()));
                  if (--act->waiting == 0) act->finish(reactor_.now());
                });
}

void PageActs::ask_signal(const std::shared_ptr<Act>& act, const HostAddr& host,
                          const RankSet& ranks) {
  wire::SignalProcsT signal;
  signal.mesh = act->order.mesh;
  signal.ranks = to_wire(ranks);
  signal.signal = static_cast<std::uint8_t>(act->order.signal);
  signal.requester = options_.requester;
  site_.request(host, std::move(signal), kActLimit,
                [this, act, host, ranks](const Result<ControlMessage>& answer) {
                  answer ? act->succeed(ranks)
                         : act->fail(host, ranks, order_words(answer.error()));
                  if (--act->waiting == 0) act->finish(reactor_.now());
                });
}

void PageActs::ask_stacks(const std::shared_ptr<Act>& act, const HostAddr& host,
                          const RankSet& ranks) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(act->begin + kLookLimit -
                                                                          reactor_.now());
  if (left <= 0ms) {
    act->fail(host, ranks, "there was no time left");
    if (--act->waiting == 0) act->finish(reactor_.now());
    return;
  }
  wire::GetStacksT question;
  question.mesh = act->order.mesh;
  question.ranks = to_wire(ranks);
  question.kernel_only = act->order.is_kernel_only;
  site_.request(host, std::move(question), left,
                [this, act, host, ranks](const Result<ControlMessage>& answer) {
                  const auto* const body = answer ? answer->body_as<wire::Stacks>() : nullptr;
                  if (body == nullptr) {
                    act->fail(
                        host, ranks,
                        answer ? "it answered " + answer->body_name() : answer.error().to_string());
                  } else {
                    wire::StacksT stacks;
                    body->UnPackTo(&stacks);
                    act->tree.add(stacks);
                    RankSet rest;
                    for (const auto& block : stacks.left_out)
                      rest.push_back({block.begin(), block.end()});
                    // What does not fit into one answer is asked for again.
                    if (!rest.empty()) return ask_stacks(act, host, rest);
                    act->ranks.assign(act->tree.ranks().begin(), act->tree.ranks().end());
                  }
                  if (--act->waiting == 0) act->finish(reactor_.now());
                });
}

}  // namespace meshbus
