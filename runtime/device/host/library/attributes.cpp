#include "runtime/device/host/library/attributes.h"

namespace lockstep::runtime {

const artifact::AttributeT *Attributes::find(const char *name) {
  asked.insert(name);
  for (const auto &attribute : kernel.attributes)
    if (attribute->name == name)
      return attribute.get();
  return nullptr;
}

void Attributes::reject(const char *name, const std::string &reason) {
  if (problem.ok())
    problem = internalFault("attribute '" + std::string(name) + "' " + reason)
                  .at("kernel '" + kernel.name + "'");
}

int64_t Attributes::integer(const char *name,
                            std::optional<int64_t> otherwise) {
  const artifact::AttributeT *attribute = find(name);
  if (attribute && attribute->ints.size() == 1)
    return attribute->ints[0];
  if (attribute || !otherwise)
    reject(name, attribute ? "must be one integer" : "is missing");
  return otherwise.value_or(1);
}

Ints Attributes::integers(const char *name, int64_t size,
                          std::optional<Ints> otherwise) {
  const artifact::AttributeT *attribute = find(name);
  bool fits = attribute &&
              (size < 0 || attribute->ints.size() == static_cast<size_t>(size));
  if (fits)
    return attribute->ints;
  if (attribute || !otherwise)
    reject(name, attribute ? "must have " + std::to_string(size) + " integers"
                           : "is missing");
  return otherwise.value_or(Ints(size < 0 ? 0 : size, 1));
}

double Attributes::number(const char *name, double otherwise) {
  const artifact::AttributeT *attribute = find(name);
  if (!attribute)
    return otherwise;
  if (attribute->doubles.size() == 1)
    return attribute->doubles[0];
  reject(name, "must be one number");
  return otherwise;
}

std::string Attributes::text(const char *name, const char *otherwise) {
  const artifact::AttributeT *attribute = find(name);
  return attribute ? attribute->text : otherwise;
}

Status Attributes::finish() {
  for (const auto &attribute : kernel.attributes)
    if (!asked.count(attribute->name))
      reject(attribute->name.c_str(), "is unknown");
  return problem;
}

} // namespace lockstep::runtime
