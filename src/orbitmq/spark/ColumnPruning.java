package orbitmq;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Tells our sources which columns a query uses; see pruning.py, which has Janino compile this.
 *
 * <pre>
 *   Project [tags]                        Project [tags]
 *   +- Filter (queue_id = 3)       -->    +- Filter (queue_id = 3)
 *      +- Scan [all columns]                 +- Scan [queue_id, tags]
 * </pre>
 *
 * A narrow scan is one with a narrow schema, as a user may give it. All scans of a load() read the
 * partitions that the first one planned, so that "latest" is the same offset for them all.
 */
public class ColumnPruning extends Rule {
  private static final String SETTING = "spark.orbitmq.columnPruning";
  private static final String PUSH_FILTERS = "pushFilters";

  /** What is known of each load(), by its table; forgotten with it. */
  private final Map loads = Collections.synchronizedMap(new WeakHashMap());

  public TreeNode apply(TreeNode given) {
    try {
      boolean isOn = "true".equalsIgnoreCase(SQLConf.get().getConfString(SETTING, "true"));
      return isOn ? rewritten((LogicalPlan) given) : given;
    } catch (Throwable error) { // the query is right without this
      LoggerFactory.getLogger("orbitmq.spark").warn("columns are not pruned", error);
      return given;
    }
  }

  private LogicalPlan rewritten(LogicalPlan plan) throws Exception {
    if (plan instanceof DataSourceV2ScanRelation) {
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
      return isOurs(scan) ? planned(scan, columns(scan)) : plan;
    }
    if (plan instanceof Project || plan instanceof Aggregate) {
      LogicalPlan child = (LogicalPlan) plan.children().apply(0);
      LogicalPlan narrow = narrowed(child, plan.references());
      if (narrow != null) {
        return narrow == child ? plan : (LogicalPlan) plan.withNewChildren(only(narrow));
      }
    }
    return (LogicalPlan) plan.mapChildren(new AbstractFunction1() {
      public Object apply(Object child) {
        try {
          return rewritten((LogicalPlan) child);
        } catch (Exception error) {
          throw new RuntimeException(error);
        }
      }
    });
  }

  /** Returns filters over a scan of ours, with a narrow scan; null if that is not what it is. */
  private LogicalPlan narrowed(LogicalPlan plan, AttributeSet used) throws Exception {
    if (plan instanceof Filter) {
      LogicalPlan child = ((Filter) plan).child();
      LogicalPlan narrow = narrowed(child, used.$plus$plus(plan.references()));
      if (narrow == null || narrow == child) {
        return narrow == null ? null : plan;
      }
      return (LogicalPlan) plan.withNewChildren(only(narrow));
    }
    if (!(plan instanceof DataSourceV2ScanRelation) || !isOurs((DataSourceV2ScanRelation) plan)) {
      return null;
    }
    DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
    List kept = new ArrayList();
    AttributeReference least = null; // a count needs rows, which need a column
    for (Object each : columns(scan)) {
      AttributeReference column = (AttributeReference) each;
      if (used.contains(column)) {
        kept.add(column);
      }
      if (least == null || column.dataType().defaultSize() < least.dataType().defaultSize()) {
        least = column;
      }
    }
    if (kept.isEmpty()) {
      kept.add(least);
    }
    return planned(scan, kept);
  }

  private static boolean isOurs(DataSourceV2ScanRelation scan) {
    if (!(scan.scan() instanceof PythonScan)) {
      return false;
    }
    String format = scan.relation().table().name();
    boolean isFormat = format.equals("rocketmq") || format.equals("rocketmq-store");
    return isFormat
        && !scan.relation().options().getBoolean(PUSH_FILTERS, false)
        && scan.pushedFilters().isEmpty();
  }

  private static List columns(DataSourceV2ScanRelation scan) {
    return CollectionConverters.asJava(scan.output());
  }

  /** Returns the scan of some columns; the same one if it is that already. */
  private LogicalPlan planned(DataSourceV2ScanRelation scan, List columns) throws Exception {
    StructType schema = new StructType();
    for (Object each : columns) {
      AttributeReference column = (AttributeReference) each;
      schema = schema.add(column.name(), column.dataType(), true);
    }
    PythonScan wide = (PythonScan) scan.scan();
    Object table = scan.relation().table();
    Load load;
    synchronized (loads) {
      load = (Load) loads.get(table);
      if (load == null) {
        load = new Load(source(table), wide.readSchema());
        loads.put(table, load);
      }
    }
    PythonScan found = load.scan(scan.relation().table().name(), schema, scan.relation().options());
    if (found == wide) {
      return scan;
    }
    Seq output = CollectionConverters.asScala(columns).toSeq();
    return new DataSourceV2ScanRelation(scan.relation(), found, output,
        scan.keyGroupedPartitioning(), scan.ordering(), scan.pushedFilters(), scan.mergeableScan());
  }

  /** Returns the source that load() made. Spark has no method for it. */
  private static PythonDataSourceV2 source(Object table) throws Exception {
    Field field = table.getClass().getDeclaredField("ds");
    field.setAccessible(true);
    return (PythonDataSourceV2) field.get(table);
  }

  private static Seq only(LogicalPlan plan) {
    return CollectionConverters.asScala(Collections.singletonList(plan)).toSeq();
  }

  /** The scans of one load(): equal ones are one, and all read the same partitions. */
  private static class Load {
    private final PythonDataSourceV2 source;
    private final StructType schema;
    private final Map scans = new HashMap();
    private Seq partitions;

    Load(PythonDataSourceV2 source, StructType schema) {
      this.source = source;
      this.schema = schema;
    }

    synchronized PythonScan scan(String format, StructType columns,
        CaseInsensitiveStringMap options) {
      PythonScan scan = (PythonScan) scans.get(columns);
      if (scan == null) {
        Narrow narrow = new Narrow(this);
        narrow.setShortName(format);
        org.apache.spark.sql.sources.Filter[] none = new org.apache.spark.sql.sources.Filter[0];
        scan = new PythonScan(narrow, format, columns, options, none);
        scans.put(columns, scan);
      }
      return scan;
    }

    synchronized PythonDataSourceReadInfo pinned(PythonDataSourceReadInfo planned) {
      if (partitions == null) {
        partitions = planned.partitions();
      }
      return new PythonDataSourceReadInfo(planned.func(), partitions);
    }

    /** Returns the source as load() made it: only its reader is given the schema. */
    PythonDataSourceCreationResult created(String format, CaseInsensitiveStringMap options) {
      return source.getOrCreateDataSourceInPython(format, options, new Some(schema));
    }
  }

  private static class Narrow extends PythonDataSourceV2 {
    private final Load load;

    Narrow(Load load) {
      this.load = load;
    }

    public PythonDataSourceCreationResult getOrCreateDataSourceInPython(String format,
        CaseInsensitiveStringMap options, Option schema) {
      return load.created(format, options);
    }

    public PythonDataSourceReadInfo getOrCreateReadInfo(String format,
        CaseInsensitiveStringMap options, StructType schema, boolean isStreaming) {
      return load.pinned(super.getOrCreateReadInfo(format, options, schema, isStreaming));
    }
  }
}
