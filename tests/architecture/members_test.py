"""No class has more than 25 data members. A class with more must be split into several types."""

from pathlib import Path

import pytest

import members

ROOT = Path(__file__).resolve().parents[2]
MEMBERS_MAX = 25


def large_classes(root):
    """Returns {"FILE CLASS": number of data members} of the classes above the limit."""
    found = {}
    for folder in ("src", "include"):
        for path in (root / folder).rglob("*.?pp"):
            for name, count in members.classes(path.read_text(encoding="utf-8")):
                if count > MEMBERS_MAX:
                    found[f"{path.relative_to(root)} {name}"] = count
    return found


def test_no_class_has_many_data_members():
    assert large_classes(ROOT) == {}


def plain(count):
    return "".join(f"  int m{i} = 0;\n" for i in range(count))


@pytest.mark.parametrize("path", ["src/app/large.cpp", "include/combu/large.hpp"])
def test_a_struct_above_the_limit_is_found(tmp_path, path):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f"struct Large {{\n{plain(MEMBERS_MAX)}}};\n", encoding="utf-8")
    assert large_classes(tmp_path) == {}
    file.write_text(f"struct Large {{\n{plain(MEMBERS_MAX + 1)}}};\n", encoding="utf-8")
    assert large_classes(tmp_path) == {f"{path} Large": MEMBERS_MAX + 1}


def test_functions_static_members_and_types_are_not_counted():
    assert members.classes(
        """
namespace combu {
template <class T, class = void>
class Large final : public Base<T>, private Other {
 public:
  using Pair = std::pair<int, int>;
  enum class Kind : std::uint8_t { one, two };
  static constexpr int k_max = 3;
  inline static std::map<int, int> all{};
  struct Part {
    int one = 0;
    std::string two;
  };
  class Later;
  friend class Friend;
  static_assert(sizeof(int) == 4);
  explicit Large(int a, int b = 2) : Base<T>{a}, a_{a}, b_(b) { int local = 0; }
  Large(const Large&) = delete;
  ~Large() override;
  Large& operator=(Large other) noexcept;
  bool operator<(const Large& other) const { return a_ < other.a_; }
  bool operator==(const Large&) const = default;
  void operator()(int value) const;
  explicit operator bool() const { return a_ != 0; }
  [[nodiscard]] std::vector<Pair> pairs(const std::function<void()>& tell = [] {}) const;
  [[nodiscard]] auto kind() const -> Kind { return kind_; }
  virtual void run() = 0;
  template <class U>
  void add(U value) {
    struct Local {
      int one, two, three;
    };
  }

"""
        + plain(21)
        + """
 private:
  int a_;
  int b_;  // with a comment; with semicolons;
  Kind kind_ = Kind::one;
  Part part_;
  const char* text_ = "}; int x;";
};
}  // namespace combu
"""
    ) == [("Large", 26), ("Large::Part", 2), ("Large::Local", 3)]


def test_initializers_may_span_lines():
    statements = "".join(
        f"""
  // Some have a comment.
  database::Sql statement_{i}{{
      database,
      "UPDATE trials SET a = ?; {{ "
      "WHERE run = ?"}};
"""
        for i in range(22)
    )
    assert members.classes(
        "struct Record::Impl {\n  Impl(const std::string& folder, Use use);\n"
        + statements
        + """
  std::function<void(int)> tell{[](int value) {
    if (value > 3) return;
  }};
  std::map<std::string, std::pair<int, int>> pairs = {
      {"a", {1, 2}},
      {"b", {3, 4}},
  };
  std::string raw = R"sql(SELECT "}"; --)sql";
  int largest = 1'000'000;
};
"""
    ) == [("Record::Impl", 26)]


@pytest.mark.parametrize(
    ("declaration", "count"),
    [
        ("int a, b = 2, c{3};", 3),
        ("std::map<int, std::array<int, 2>> a, b;", 2),
        ("int bits : 3;", 1),
        ("char letters['a' + 1];", 1),
        ("void (*call)(int, int) = nullptr;", 1),
        ("std::vector<int> (*make)();", 1),
        ("alignas(64) std::atomic<bool> flag{false};", 1),
        ("[[maybe_unused]] decltype(f(1)) value;", 1),
        ("bool is_less = 1 < 2, other = 3 > 2;", 2),
        ("struct Part* part = nullptr;", 1),
        ("struct stat status {};", 1),
        ("struct stat status{};", 1),
        ("struct Part;", 0),
        ("enum class Kind : int;", 0),
        ("enum { one, two } kind = one;", 1),
        ("union { int a; float b; };", 2),
        ("struct { int a; int b; } pair;", 1),
        ("mutable std::mutex mutex;", 1),
        ("std::size_t size() const noexcept;", 0),
        ("std::function<void()> get() const;", 0),
        ("#define TWO int a; int b;\n  int c;", 1),
    ],
)
def test_the_members_of_a_declaration_are_counted(declaration, count):
    assert dict(members.classes(f"struct S {{\n  {declaration}\n}};\n"))["S"] == count


def test_a_parameter_or_variable_defines_no_class():
    assert members.classes(
        """
template <class T, class U>
T f(const struct stat& status) {
  struct stat other {};
  enum class Kind { one };
  return {};
}
class Later;
"""
    ) == []
