#include "cli/mesh/mesh_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/mesh/mesh_grid.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/slice_text.h"
#include "cli/support/text_error.h"
#include "mesh/axes.h"
#include "mesh/text.h"
#include "meshbus/host_mesh_ref.h"
#include "meshbus/overlay.h"
#include "meshbus/region.h"

namespace meshbus::cli {
namespace {

struct MeshArguments {
  /// A region; slice: a reference to hosts; merge: an overlay.
  std::string text;
  /// group: a label; merge: the overlay that wins.
  std::string other;
  /// slice: LABEL=I or LABEL=[B]:[E][:STEP], applied in order.
  std::vector<std::string> slices;
  bool json = false;
};

int usage(std::string_view text, const Error& error) {
  std::cerr << "meshbus: " << error.detail() << "\n" << pointed_at(text, error);
  return kUsage;
}

/// A mesh may have more ranks than fit in memory, or in any file: they are written as they come,
/// until nobody wants them.
template <typename Range, typename Write>
void print_list(const Range& range, bool json, Write write) {
  bool is_first = true;
  if (json) std::cout << '[';
  for (const auto& item : range) {
    if (json && !is_first) std::cout << ',';
    is_first = false;
    write(item);
    if (!json) std::cout << '\n';
    if (!std::cout) return;
  }
  if (json) std::cout << ']';
}

int show(const MeshArguments& arguments) {
  const auto region = Region::parse(arguments.text);
  if (!region) return usage(arguments.text, region.error());
  if (!arguments.json) {
    print_grid(std::cout, *region);
    return 0;
  }
  auto json_axes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < region->num_dims(); ++i)
    json_axes.push_back({{"label", region->labels()[i]},
                         {"size", region->sizes()[i]},
                         {"stride", region->strides()[i]}});
  const nlohmann::ordered_json json = {{"region", region->to_string()},
                                       {"extent", region->extent().to_string()},
                                       {"num_ranks", region->num_ranks()},
                                       {"offset", region->offset()},
                                       {"axes", std::move(json_axes)}};
  std::string front = dump(json);
  front.pop_back();  // the brace: the ranks come last
  std::cout << front << ",\"ranks\":";
  print_list(region->ranks(), true, [](std::uint64_t rank) { std::cout << rank; });
  std::cout << "}\n";
  return 0;
}

int ranks(const MeshArguments& arguments) {
  const auto region = Region::parse(arguments.text);
  if (!region) return usage(arguments.text, region.error());
  print_list(region->ranks(), arguments.json, [](std::uint64_t rank) { std::cout << rank; });
  if (arguments.json) std::cout << '\n';
  return 0;
}

int slice(const MeshArguments& arguments) {
  auto mesh = HostMeshRef::parse(arguments.text);
  if (!mesh) return usage(arguments.text, mesh.error());
  for (const auto& text : arguments.slices) {
    mesh = sliced(*mesh, text);
    if (!mesh) return usage(text, mesh.error());
  }
  if (!arguments.json) {
    std::cout << *mesh << "\n";
    return 0;
  }
  auto json_ranks = nlohmann::ordered_json::array();
  for (const auto rank : mesh->region().ranks())
    json_ranks.push_back(rank);  // as many as there are hosts in the text
  std::cout << dump({{"ref", mesh->to_string()},
                     {"region", mesh->region().to_string()},
                     {"ranks", std::move(json_ranks)}})
            << "\n";
  return 0;
}

int group(const MeshArguments& arguments) {
  const auto region = Region::parse(arguments.text);
  if (!region) return usage(arguments.text, region.error());
  text::Scanner scanner("label", arguments.other);
  const auto label = scanner.label();
  if (!label) return usage(arguments.other, label.error());
  if (const auto end = scanner.expect_end("the end of the label"); !end)
    return usage(arguments.other, end.error());
  const auto groups = region->group_by(*label);
  if (!groups) return usage(arguments.other, found_at("label", 0, groups.error()));
  print_list(*groups, arguments.json, [&](const Region& one) {
    if (arguments.json) {
      std::cout << dump(one.to_string());
    } else {
      std::cout << one;
    }
  });
  if (arguments.json) std::cout << '\n';
  return 0;
}

int merge(const MeshArguments& arguments) {
  auto left = parse_overlay(arguments.text);
  if (!left) return usage(arguments.text, left.error());
  const auto right = parse_overlay(arguments.other);
  if (!right) return usage(arguments.other, right.error());
  left->merge(*right);
  const auto text = to_string(*left);
  std::cout << (arguments.json ? dump({{"overlay", text}}) : text) << "\n";
  return 0;
}

int run(int (*verb)(const MeshArguments&), const MeshArguments& arguments) {
  std::ios::sync_with_stdio(false);  // a million ranks in a blink
  const int code = verb(arguments);
  std::cout.flush();
  if (std::cout) return code;
  return output_lost("mesh");
}

}  // namespace

void add_mesh(CLI::App& app, Commands& commands) {
  auto& verbs = commands.add_group(
      app, "mesh",
      {.meaning = "Show, slice, group and merge meshes given as texts; needs no host",
       .examples = {"mesh show 'host=2/4,gpu=4/1'"}});
  const auto add_verb = [&](int (*verb)(const MeshArguments&), const std::string& name,
                            const std::string& text, const Help& help) {
    const auto arguments = std::make_shared<MeshArguments>();
    auto& one =
        commands.add(verbs, name, help, [arguments, verb] { return run(verb, *arguments); });
    one.add_option(text, arguments->text)->required();
    one.add_flag("--json", arguments->json, "Print JSON");
    return std::pair<CLI::App&, MeshArguments&>(one, *arguments);
  };
  add_verb(
      show, "show", "REGION",
      {.meaning = "The ranks of a region as a grid", .examples = {"mesh show 'host=2/4,gpu=4/1'"}});
  add_verb(ranks, "ranks", "REGION",
           {.meaning = "The base ranks of a region in order",
            .examples = {"mesh ranks '8+x=2/1,y=3/2'"}});
  // CLI11 takes no colon in the name of an argument.
  auto [one, sliced] = add_verb(slice, "slice", "HOSTS",
                                {.meaning = "A part of the hosts NAME:HOSTS@REGION",
                                 .examples = {"mesh slice 'm:local:1,local:2@host=2/1' host=1"}});
  one.add_option("SLICE", sliced.slices,
                 "LABEL=INDEX or LABEL=[BEGIN]:[END][:STEP], applied left to right");
  auto [two, grouped] = add_verb(group, "group", "REGION",
                                 {.meaning = "A region per coordinate of the axes before LABEL",
                                  .examples = {"mesh group 'x=2/2,y=2/1' y"}});
  two.add_option("LABEL", grouped.other)->required();
  auto [three, merged] = add_verb(merge, "merge", "OVERLAY",
                                  {.meaning = "Two overlays in one, the second wins",
                                   .examples = {"mesh merge '0..5=A,5..10=B' '3..7=C'"}});
  three.add_option("WINNER", merged.other)->required();
}

}  // namespace meshbus::cli
