#include "cli/support/find_controllers.h"

#include <algorithm>
#include <set>
#include <thread>

#include "cli/support/find_hosts.h"
#include "client/src/base/time_left.h"
#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "wire/supervision_generated.h"

namespace meshbus::cli {

ProcId controller_of(const HostAddr& host) {
  return {host, ProcName(Name::controller())};
}

std::vector<wire::ControllerStateT> ask_controllers(Context& context,
                                                    const std::vector<HostAddr>& hosts,
                                                    const std::string& mesh,
                                                    std::chrono::milliseconds limit) {
  std::vector<wire::ControllerStateT> found;
  const auto& core = context.core();
  std::vector<std::pair<ConnectionUse, Connection::Answer>> answers;
  for (const auto& host : std::set<HostAddr>(hosts.begin(), hosts.end())) {
    auto way = core->find_connection(core, host);
    if (!way) continue;
    const auto to = Destination::to(controller_of(host));
    wire::GetStateT get;
    get.mesh = mesh;
    auto answer = mesh.empty() ? (*way)->ask(to, wire::ListMeshesT(), limit)
                               : (*way)->ask(to, std::move(get), limit);
    answers.emplace_back(std::move(*way), std::move(answer));
  }
  for (auto& [way, future] : answers) {
    const auto answer = future.get();
    const auto* const state = answer ? answer->body_as<wire::ControllerState>() : nullptr;
    if (state != nullptr) state->UnPackTo(&found.emplace_back());
  }
  return found;
}

namespace {

/// One that is not there is asked again after so long.
constexpr std::chrono::milliseconds kAskAgain{100};

/// What became of one offer to all of them.
struct Offered {
  std::optional<wire::OfferAcceptedT> accepted;
  Error error{ErrorCode::not_exist, "there is no other controller at these hosts"};
  bool is_one_away = false;
};

Result<Offered> offer_to(Context& context, const std::vector<ProcId>& asked,
                         const wire::OfferMeshT& offer, std::chrono::milliseconds limit) {
  const auto& core = context.core();
  // At once: a host that does not answer takes its time. A controller
  // that says yes and is not chosen has taken nothing.
  std::vector<ConnectionUse> ways;
  std::vector<Connection::Answer> answers;
  for (const auto& id : asked) {
    auto way = core->find_connection(core, id.host());
    if (!way) return fail(way.error());
    answers.push_back((*way)->ask(Destination::to(id), wire::OfferMeshT(offer), limit));
    ways.push_back(std::move(*way));
  }
  Offered offered;
  std::string detail;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto answer = answers[i].get();
    const auto* const accepted = answer ? answer->body_as<wire::OfferAccepted>() : nullptr;
    if (accepted != nullptr) {
      accepted->UnPackTo(&offered.accepted.emplace());
      return offered;
    }
    const auto error =
        answer ? Error(ErrorCode::malformed_message, "it answered " + answer->body_name())
               : answer.error();
    // One that stands by may act soon.
    offered.is_one_away = offered.is_one_away || error.code() == ErrorCode::no_such_proc ||
                          error.code() == ErrorCode::would_block;
    if (detail.empty() || error.code() == ErrorCode::refused) offered.error = error;
    detail += (detail.empty() ? "" : "; ") + asked[i].to_string() + ": " + error.to_string();
  }
  if (!detail.empty()) offered.error = Error(offered.error.code(), std::move(detail));
  return offered;
}

}  // namespace

Result<wire::OfferAcceptedT> choose_controller(Context& context, const std::vector<HostAddr>& hosts,
                                               const std::string& mesh, const std::string& word,
                                               const std::string& except, bool waits,
                                               std::chrono::milliseconds limit) {
  std::vector<ProcId> asked;
  if (word.empty()) {
    for (const auto& host : std::set<HostAddr>(hosts.begin(), hosts.end()))
      asked.push_back(controller_of(host));
  } else if (auto id = ProcId::parse(word)) {
    asked.push_back(std::move(*id));
  } else {
    const auto host = HostAddr::parse(word);
    if (!host) return fail(host.error().within("'" + word + "' is no host of a controller"));
    asked.push_back(controller_of(*host));
  }
  std::erase_if(asked, [&](const ProcId& id) { return id.to_string() == except; });
  wire::OfferMeshT offer;
  offer.mesh = mesh;
  for (const auto& host : hosts) offer.hosts.push_back(host.to_string());
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    auto offered = offer_to(context, asked, offer, std::max(left_until(end), kLeastTime));
    if (!offered) return fail(offered.error());
    if (offered->accepted) return std::move(*offered->accepted);
    if (!waits || !offered->is_one_away || left_until(end) <= kAskAgain)
      return fail(except.empty() ? std::move(offered->error)
                                 : Error(offered->error.code(), except + " answers for " + mesh +
                                                                    " already, and " +
                                                                    offered->error.detail()));
    std::this_thread::sleep_for(kAskAgain);
  }
}

}  // namespace meshbus::cli
