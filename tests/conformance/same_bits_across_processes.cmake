# cmake -DPROGRAM=result_digest -P same_bits_across_processes.cmake
# The same problems in processes of their own, with different numbers of workers: the same bits.
foreach(workers 1 1 2 3 7)
  execute_process(COMMAND ${PROGRAM} ${workers} OUTPUT_VARIABLE digests COMMAND_ERROR_IS_FATAL ANY)
  if(NOT DEFINED first)
    set(first "${digests}")
  elseif(NOT digests STREQUAL first)
    message(FATAL_ERROR "With 1 worker:\n${first}\nWith ${workers} workers, in another process:\n${digests}")
  endif()
endforeach()
if(NOT first MATCHES "[0-9a-f]+ (f32|bf16|f16) b")
  message(FATAL_ERROR "No digests, but:\n${first}")
endif()
