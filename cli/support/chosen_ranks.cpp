#include "cli/support/chosen_ranks.h"

#include "cli/support/choose_mesh.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {

std::variant<ChosenRanks, int> choose_views(const std::string& text, const HostChoice& hosts,
                                            ContextOptions options) {
  const auto give_up = [](const std::string& why, int code) {
    complain(why);
    return code;
  };
  const auto selector = Selector::parse(text);
  if (!selector) return give_up(selector.error().detail(), kUsage);
  auto reached = reach_hosts(hosts, std::move(options));
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& all = std::get<ReachedHosts>(reached);
  const MeshReport* const mesh = choose_mesh(all.listing, selector->mesh, Among::all);
  if (mesh == nullptr) return kFailed;
  const auto whole = mesh->ref();
  if (!whole) return give_up(error_words(whole.error()), kFailed);
  auto views = selector->select(*whole);
  if (!views)
    return give_up(error_words(views.error()), selector->slices.empty() ? kFailed : kUsage);
  MeshReport chosen = *mesh;
  return ChosenRanks{std::move(all), std::move(chosen), std::move(*views)};
}

}  // namespace meshbus::cli
