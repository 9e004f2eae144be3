#include "cli/support/chosen_ranks.h"

#include "cli/support/choose_mesh.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {

std::variant<ChosenRanks, int> choose_ranks(const std::string& text, const HostChoice& hosts) {
  const auto give_up = [](const std::string& why, int code) {
    complain(why);
    return code;
  };
  const auto selector = Selector::parse(text);
  if (!selector) return give_up(selector.error().detail(), kUsage);
  auto attached = attach_hosts(hosts, Need::any);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  auto& all = std::get<AttachedHosts>(attached);
  auto listing = all.hosts.meshes(hosts.timeout);
  if (!listing) return give_up(listing.error().to_string(), 1);
  for (const auto& host : listing->unreachable)
    complain("host " + host.host.to_string() + " does not answer: " + host.problem);
  const MeshReport* const mesh = choose_mesh(*listing, selector->mesh);
  if (mesh == nullptr) return 1;
  const auto whole = mesh->ref();
  if (!whole) return give_up(whole.error().to_string(), 1);
  auto views = selector->select(*whole);
  if (!views) return give_up(views.error().to_string(), selector->slices.empty() ? 1 : kUsage);
  return ChosenRanks{std::move(all), *mesh, std::move(*views)};
}

}  // namespace meshbus::cli
