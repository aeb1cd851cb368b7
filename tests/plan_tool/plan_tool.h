#ifndef PLAN_TOOL_H
#define PLAN_TOOL_H

Function *shuffle(const Function *f, bool parameters, uint64_t seed);

#endif
