include("${ROOT}/compiler/install/LockstepSteps.cmake")
_lockstep_options(made "${GIVEN}" "${OPTIONS}")
message("options ${made}")
