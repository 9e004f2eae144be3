#include "client/cli/find_controllers.h"

#include <set>

#include "client/src/connection.h"
#include "client/src/context_core.h"

namespace meshbus::cli {

ProcId controller_of(const HostAddr& host) {
  return {host, ProcName(Name::controller())};
}

std::vector<wire::ControllerStateT> ask_controllers(Context& context, const std::vector<HostAddr>& hosts, const std::string& mesh,
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
    auto answer = mesh.empty() ? (*way)->ask(to, wire::ListMeshesT(), limit) : (*way)->ask(to, std::move(get), limit);
    answers.emplace_back(std::move(*way), std::move(answer));
  }
  for (auto& [way, future] : answers) {
    const auto answer = future.get();
    const auto* const state = answer ? answer->body_as<wire::ControllerState>() : nullptr;
    if (state != nullptr) state->UnPackTo(&found.emplace_back());
  }
  return found;
}

Result<wire::OfferAcceptedT> choose_controller(Context& context, const std::vector<HostAddr>& hosts, const std::string& mesh,
                                               const std::string& word, const std::string& except, std::chrono::milliseconds limit) {
  std::vector<ProcId> asked;
  if (word.empty()) {
    for (const auto& host : std::set<HostAddr>(hosts.begin(), hosts.end())) asked.push_back(controller_of(host));
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
  const auto& core = context.core();
  Error first(ErrorCode::not_exist, "there is no other controller at these hosts");
  std::string detail;
  // At once: where there is none, that takes its time. Who has said yes and is not chosen has taken nothing.
  std::vector<ConnectionUse> ways;
  std::vector<Connection::Answer> answers;
  for (const auto& id : asked) {
    auto way = core->find_connection(core, id.host());
    if (!way) return fail(way.error());
    answers.push_back((*way)->ask(Destination::to(id), wire::OfferMeshT(offer), limit));
    ways.push_back(std::move(*way));
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto& id = asked[i];
    const auto answer = answers[i].get();
    const auto* const accepted = answer ? answer->body_as<wire::OfferAccepted>() : nullptr;
    if (accepted != nullptr) {
      wire::OfferAcceptedT out;
      accepted->UnPackTo(&out);
      return out;
    }
    const auto error = answer ? Error(ErrorCode::malformed_message, "it answered " + answer->body_name()) : answer.error();
    if (detail.empty() || error.code() == ErrorCode::refused) first = error;
    detail += (detail.empty() ? "" : "; ") + id.to_string() + ": " + error.to_string();
  }
  return detail.empty() ? fail(first) : fail(first.code(), std::move(detail));
}

}  // namespace meshbus::cli
