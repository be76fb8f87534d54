from orbitmq.broker.pulling.filter_data import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterTable,
    TopicFilters,
)

WRITTEN_BY_JAVA = b"""{
\t"filterDataByTopic":{
\t\t"orders":{
\t\t\t"groupFilterData":{
\t\t\t\t"billing":{
\t\t\t\t\t"bloomFilterData":{
\t\t\t\t\t\t"bitNum":112,
\t\t\t\t\t\t"bitPos":[31,20,9]
\t\t\t\t\t},
\t\t\t\t\t"bornTime":1700000000000,
\t\t\t\t\t"clientVersion":7,
\t\t\t\t\t"consumerGroup":"billing",
\t\t\t\t\t"dead":true,
\t\t\t\t\t"deadTime":1700000000001,
\t\t\t\t\t"expression":"a > 1",
\t\t\t\t\t"expressionType":"SQL92",
\t\t\t\t\t"topic":"orders"
\t\t\t\t}
\t\t\t},
\t\t\t"topic":"orders"
\t\t}
\t}
}"""


def test_java_s_file_is_read_and_written() -> None:
    table = ConsumerFilterTable.from_json(WRITTEN_BY_JAVA)
    data = ConsumerFilterData(
        bloom_filter_data=BloomFilterData(bit_num=112, bit_pos=(31, 20, 9)),
        born_time=1_700_000_000_000,
        client_version=7,
        consumer_group="billing",
        dead=True,
        dead_time=1_700_000_000_001,
        expression="a > 1",
        expression_type="SQL92",
        topic="orders",
    )
    of_topic = TopicFilters(group_filter_data={"billing": data}, topic="orders")
    assert table == ConsumerFilterTable(filter_data_by_topic={"orders": of_topic})
    spaces = str.maketrans("", "", "\t\n")
    assert table.to_json().decode() == WRITTEN_BY_JAVA.decode().translate(spaces)
