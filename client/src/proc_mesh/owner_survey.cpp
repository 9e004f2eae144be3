#include "client/src/proc_mesh/owner_survey.h"

#include <utility>

#include "client/src/base/time_left.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

OwnerSurvey::OwnerSurvey(Connection& connection, std::string mesh,
                         const std::vector<HostAddr>& hosts, Time end) {
  std::vector<Connection::Answer> futures;
  for (const auto& host : hosts) {
    wire::GetStateT get;
    get.mesh = mesh;
    futures.push_back(connection.ask(Destination::to_agent(host), std::move(get), left_until(end)));
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    answers_.emplace_back(hosts[i], futures[i].get());
    take(hosts[i], answers_.back().second);
  }
}

void OwnerSurvey::take(const HostAddr& host, const Result<ControlMessage>& answer) {
  if (!answer) {
    problems_.emplace(host, answer.error());
    return;
  }
  const auto* const state = answer->body_as<wire::MeshState>();
  if (state == nullptr) {
    problems_.emplace(host, Error(ErrorCode::malformed_message,
                                  "it answered " + answer->body_name() + " to GetState"));
    return;
  }
  const auto* const ownership = state->ownership();
  if (ownership != nullptr && ownership->gone()) {
    ownerless_.push_back(host);
  } else {
    owners_.insert(ownership != nullptr ? ownership->owner()->str() : text_of(state->owner()));
  }
  const auto* const plan = ownership == nullptr ? nullptr : ownership->restarts();
  has_restarts_ = has_restarts_ || (plan != nullptr && !plan->over());
}

std::string OwnerSurvey::words() const {
  std::string text;
  for (const auto& owner : owners_) text += (text.empty() ? "" : " and ") + owner;
  if (!text.empty()) text += owners_.size() == 1 ? " answers for it" : " answer for parts of it";
  if (!ownerless_.empty())
    text += text.empty() ? "nobody answers for it any more"
                         : "; on " + ownerless_.front().to_string() + " nobody does any more";
  return text.empty() ? "none of its hosts says who answers for it" : text;
}

}  // namespace meshbus
